package client_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/nethttplimit/client"
)

// If nothing is sent, the body is closed once, and the error says why.
func TestTransport_NotSent(t *testing.T) {
	for name, c := range map[string]struct {
		limit  string // the exhausted one
		t      *client.Transport
		change func(r *http.Request) *http.Request
		want   error
		text   string
		after  time.Duration
	}{
		"a rate":               {"rate", &client.Transport{MaxWait: 30 * time.Second}, nil, core.ErrDeadlineTooNear, "1m0s to wait", 0},
		"a pause":              {"pause", &client.Transport{MaxWait: time.Minute}, nil, core.ErrDeadlineTooNear, "1h0m0s to wait", 0},
		"a place":              {"places", &client.Transport{MaxWait: time.Minute}, nil, core.ErrDeadlineTooNear, "not admitted within 1m0s", time.Minute},
		"the deadline":         {"rate", &client.Transport{}, withTimeout(time.Second), core.ErrDeadlineTooNear, "1m0s to wait", 0},
		"the end of ctx":       {"places", &client.Transport{MaxWait: time.Hour}, withTimeout(time.Second), context.DeadlineExceeded, "", time.Second},
		"the earlier MaxWait":  {"places", &client.Transport{MaxWait: time.Second}, withTimeout(time.Hour), core.ErrDeadlineTooNear, "within 1s", time.Second},
		"the earlier deadline": {"rate", &client.Transport{MaxWait: time.Hour}, withTimeout(time.Second), core.ErrDeadlineTooNear, "1m0s to wait", 0},
		"Cancel":               {"places", &client.Transport{}, withCancel(2 * time.Second), context.Canceled, "", 2 * time.Second},
		"no limiter":           {"", &client.Transport{}, nil, nil, "no Limiter", 0},
		"a negative MaxWait":   {"rate", &client.Transport{MaxWait: -1}, nil, nil, "negative", 0},
		"a negative Longest":   {"rate", &client.Transport{Longest: -1}, nil, nil, "negative", 0},
		"a negative Retries":   {"rate", &client.Transport{Retries: -1}, nil, nil, "negative", 0},
		"no Pause":             {"none", &client.Transport{}, nil, nil, "no Pause", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				switch c.limit {
				case "rate":
					c.t.Limiter = limiter(memstore.New(), core.TokenBucket("rate", core.PerMinute(1).WithBurst(1)))
				case "places":
					c.t.Limiter = limiter(memstore.New(), core.InFlight("places", 1))
				case "pause":
					c.t.Limiter = limiter(memstore.New())
					if err := c.t.Limiter.Pause(t.Context(), "partner.example", time.Hour); err != nil {
						t.Fatal(err)
					}
				case "none":
					c.t.Limiter = core.Must(core.New(memstore.New(), core.FixedWindow("w", core.PerSecond(1))))
				}
				if c.limit == "rate" || c.limit == "places" {
					if _, err := c.t.Limiter.Acquire(t.Context(), "partner.example"); err != nil {
						t.Fatal(err)
					}
				}
				c.t.Key = client.ByHost
				c.t.Base = roundTrip(func(*http.Request) (*http.Response, error) {
					t.Error("the request was sent")
					return respond(200, ""), nil
				})
				body := &closing{Reader: strings.NewReader("x")}
				r := get(t.Context(), t)
				r.Body = body
				if c.change != nil {
					r = c.change(r)
				}
				begun := time.Now()
				_, err := c.t.RoundTrip(r)
				if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
					t.Errorf("got %v, want %v with %q", err, c.want, c.text)
				}
				late := c.want == core.ErrDeadlineTooNear || c.want == context.DeadlineExceeded
				if wrapped := (&url.Error{Err: err}); wrapped.Timeout() != late {
					t.Errorf("%v is a timeout: %v, want %v", err, wrapped.Timeout(), late)
				}
				if took := time.Since(begun); took != c.after || body.closed.Load() != 1 {
					t.Errorf("after %v, want %v; the body was closed %d times", took, c.after, body.closed.Load())
				}
			})
		})
	}
}

// MaxWait begins with the first wait.
func TestTransport_MaxWaitOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, sent := limiter(memstore.New()), 0
		pause := func(d time.Duration) {
			if err := l.Pause(t.Context(), "partner.example", d); err != nil {
				t.Error(err)
			}
		}
		pause(time.Second)
		time.AfterFunc(1500*time.Millisecond, func() { pause(4 * time.Second) })
		tr := &client.Transport{Limiter: l, Key: client.ByHost, MaxWait: 5 * time.Second, Retries: 1}
		tr.Base = roundTrip(func(*http.Request) (*http.Response, error) {
			sent++
			return respond(429, "Retry-After: 1"), nil
		})
		if r, err := tr.RoundTrip(get(t.Context(), t)); err != nil || r.StatusCode != 429 || sent != 1 {
			t.Errorf("got %v, %v, sent %d times", r, err, sent)
		}
	})
}

// A slowStore takes a second for each decision, whatever its context says.
type slowStore struct{ core.Store }

func (s slowStore) Take(ctx context.Context, charges []driver.Charge) error {
	time.Sleep(time.Second)
	return s.Store.Take(ctx, charges)
}

// A decision that comes after MaxWait is refunded.
func TestTransport_SlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(slowStore{memstore.New()}, core.TokenBucket("rate", core.PerHour(10)))
		tr := &client.Transport{Limiter: l, Key: client.ByHost, Base: always(200, ""), MaxWait: time.Second / 2}
		if r, err := tr.RoundTrip(get(t.Context(), t)); !errors.Is(err, core.ErrDeadlineTooNear) {
			t.Errorf("got %v, %v", r, err)
		}
		if left(t, l, "rate") != 10 {
			t.Errorf("%d are left, want a refund", left(t, l, "rate"))
		}
	})
}

// A store that fails ends the request with its error.
func TestTransport_StoreFails(t *testing.T) {
	l := limiter(new(storetest.Fake).Set(storetest.Fail(core.ErrUnavailable)))
	body := &closing{Reader: bytes.NewReader(nil)}
	r := get(t.Context(), t)
	r.Body = body
	if _, err := client.New(l, client.ByHost).RoundTrip(r); !errors.Is(err, core.ErrUnavailable) || body.closed.Load() != 1 {
		t.Errorf("got %v", err)
	}
}

// http.Client.Timeout ends a wait.
func TestTransport_ClientTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(memstore.New(), core.InFlight("places", 1))
		if _, err := l.Acquire(t.Context(), "partner.example"); err != nil {
			t.Fatal(err)
		}
		tr := client.New(l, client.ByHost)
		tr.Base = always(200, "")
		begun := time.Now()
		_, err := (&http.Client{Transport: tr, Timeout: 3 * time.Second}).Get("http://partner.example/")
		if err == nil || time.Since(begun) != 3*time.Second {
			t.Errorf("got %v after %v", err, time.Since(begun))
		}
	})
}
