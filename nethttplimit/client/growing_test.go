package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/nethttplimit/client"
)

// within reports whether got is the time want, or up to a quarter more.
func within(got, want time.Duration) bool { return got >= want && got <= want+want/4 }

// Pauses without a time grow while requests after their end are limited, and a success ends that.
func TestTransport_GrowingPause(t *testing.T) {
	const minute = time.Minute
	github := func(r *http.Response) bool { return r.StatusCode == 403 }
	for name, c := range map[string]struct {
		longest time.Duration
		limited func(*http.Response) bool
		answers []string // a status, and Retry-After
		pauses  []time.Duration
	}{
		"growth":         {0, nil, []string{"429", "429", "429", "429"}, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}},
		"at most":        {3 * time.Second, nil, []string{"429", "429", "429", "429"}, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second}},
		"a success":      {0, nil, []string{"429", "429", "200", "429"}, []time.Duration{time.Second, 2 * time.Second, 0, time.Second}},
		"a client error": {0, nil, []string{"429", "429", "404", "429"}, []time.Duration{time.Second, 2 * time.Second, 0, time.Second}},
		"a server error": {0, nil, []string{"429", "429", "500", "429"}, []time.Duration{time.Second, 2 * time.Second, 0, 4 * time.Second}},
		"a named time":   {0, nil, []string{"429", "429 30", "429"}, []time.Duration{time.Second, 30 * time.Second, 2 * time.Second}},
		"of Limited":     {0, github, []string{"403", "403", "429 9", "403 9", "200", "403"}, []time.Duration{time.Second, 2 * time.Second, 0, 9 * time.Second, 0, time.Second}},
		"in a day":       {time.Hour, nil, []string{"429", "429", "429", "day", "429"}, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second, time.Second}},
		"for hours":      {minute, nil, strings.Split(strings.Repeat("429 ", 70)+"429", " "), nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := 0
				tr := &client.Transport{Limiter: limiter(memstore.New()), Key: client.ByHost, Longest: c.longest, Limited: c.limited}
				tr.Base = roundTrip(func(*http.Request) (*http.Response, error) {
					status, header := 0, ""
					if n, _ := fmt.Sscanf(c.answers[i], "%d %s", &status, &header); n > 1 {
						header = "Retry-After: " + header
					}
					return respond(status, header), nil
				})
				for i = range c.answers {
					if c.answers[i] == "day" {
						time.Sleep(24 * time.Hour)
						continue
					}
					if _, err := tr.RoundTrip(get(t.Context(), t)); err != nil {
						t.Fatal(err)
					}
					got := testkit.Peek(t, tr.Limiter, "partner.example").RetryAfter
					if i < len(c.pauses) && !within(got, c.pauses[i]) || i > 6 && got != minute {
						t.Errorf("answer %d: a pause of %v, want %v", i, got, c.pauses)
					}
				}
			})
		})
	}
}

// Responses to requests that were sent before the pause do not make it longer, and their successes do not end its growth.
func TestTransport_GrowingPauseTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &client.Transport{Limiter: limiter(memstore.New()), Key: client.ByHost}
		status := make(chan int)
		tr.Base = roundTrip(func(*http.Request) (*http.Response, error) { return respond(<-status, ""), nil })
		send := func(n int) {
			for range n {
				go func() {
					if _, err := tr.RoundTrip(get(t.Context(), t)); err != nil {
						t.Error(err)
					}
				}()
			}
			synctest.Wait()
		}
		answer := func(answers ...int) time.Duration {
			for _, a := range answers {
				status <- a
				synctest.Wait()
			}
			return testkit.Peek(t, tr.Limiter, "partner.example").RetryAfter
		}
		send(8)
		if got := answer(429, 429, 429, 429, 429, 429); !within(got, time.Second) {
			t.Errorf("a pause of %v after the first ones, want 1 s", got)
		}
		time.Sleep(3 * time.Second)
		if got := answer(200); got != 0 {
			t.Errorf("a pause of %v after a success", got)
		}
		send(1)
		if got := answer(429, 429); !within(got, 2*time.Second) {
			t.Errorf("a pause of %v after the next one, want 2 s", got)
		}
		time.Sleep(3 * time.Second)
		send(2)
		if got := answer(429); !within(got, 4*time.Second) {
			t.Errorf("a pause of %v after a later one, want 4 s", got)
		}
		time.Sleep(20 * time.Second)
		if got := answer(429); !within(got, 4*time.Second) { // of a request from before the last pause
			t.Errorf("a pause of %v after a slow one, want 4 s again", got)
		}
	})
}

// Server errors and failing connections are repeated after a growing wait of the request alone.
func TestTransport_RetriesOfFailures(t *testing.T) {
	broken := errors.New("connection reset")
	for name, c := range map[string]struct {
		method  string
		retries int
		answers []any // statuses and errors; the last one is repeated
		maxWait time.Duration
		waits   time.Duration
		sent    int
	}{
		"500":                    {"GET", 3, []any{500, 200}, 0, time.Second, 2},
		"502, 503, 504":          {"GET", 5, []any{502, 503, 504, 200}, 0, 7 * time.Second, 4},
		"501":                    {"GET", 3, []any{501, 200}, 0, 0, 1},
		"404":                    {"GET", 3, []any{404, 200}, 0, 0, 1},
		"an error":               {"GET", 3, []any{broken, broken, 200}, 0, 3 * time.Second, 3},
		"errors and statuses":    {"PUT", 3, []any{500, broken, 200}, 0, 3 * time.Second, 3},
		"a pause after failures": {"GET", 5, []any{500, 500, 429, 429, 200}, 0, 15 * time.Second, 5},
		"in turns":               {"GET", 5, []any{500, 429, 500, 429, 200}, 0, 15 * time.Second, 5},
		"no more retries":        {"GET", 2, []any{500}, 0, 3 * time.Second, 3},
		"no more, of an error":   {"GET", 2, []any{broken}, 0, 3 * time.Second, 3},
		"POST":                   {"POST", 3, []any{500, 200}, 0, 0, 1},
		"none":                   {"GET", 0, []any{broken, 200}, 0, 0, 1},
		"MaxWait":                {"GET", 9, []any{500}, 5 * time.Second, 3 * time.Second, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent, places := 0, core.InFlight("places", 1)
				l := limiter(memstore.New(), places, core.TokenBucket("rate", core.PerHour(100)))
				tr := &client.Transport{Limiter: l, Key: client.ByHost, Retries: c.retries, MaxWait: c.maxWait}
				tr.Base = roundTrip(func(*http.Request) (*http.Response, error) {
					sent++
					if left(t, l, "places") != 0 {
						t.Error("a request was sent without a place")
					}
					if status, ok := c.answers[min(sent, len(c.answers))-1].(int); ok {
						return respond(status, ""), nil
					}
					return nil, broken
				})
				r, begun := get(t.Context(), t), time.Now()
				r.Method = c.method
				free := time.AfterFunc(time.Second/2, func() {
					if left(t, l, "places") != 1 {
						t.Error("a request that waits to be sent again has a place")
					}
				})
				response, err := tr.RoundTrip(r)
				if got := time.Since(begun); sent != c.sent || !within(got, c.waits) {
					t.Errorf("sent %d times in %v, want %d and %v", sent, got, c.sent, c.waits)
				}
				free.Stop()
				switch last := c.answers[min(sent, len(c.answers))-1].(type) {
				case int:
					if err != nil || response.StatusCode != last {
						t.Fatalf("got %v, %v, want %d", response, err, last)
					}
					if text, err := io.ReadAll(response.Body); string(text) != "body" || err != nil {
						t.Errorf("got the body %q, %v", text, err)
					}
				case error:
					if !errors.Is(err, last) {
						t.Errorf("got %v, want %v", err, last)
					}
				}
				if left(t, l, "places") != 1 || left(t, l, "rate") != 100-sent || !testkit.Peek(t, l, "partner.example").Allowed {
					t.Errorf("%d places and %d of the rate are left, or there is a pause", left(t, l, "places"), left(t, l, "rate"))
				}
			})
		})
	}
}

// A response whose request may have had its effect begins a pause, and is not repeated.
func TestTransport_RetriesOfAnswers(t *testing.T) {
	const exhausted = "RateLimit: \"d\";r=0;t=60"
	for name, c := range map[string]struct {
		status  int
		limited func(*http.Response) bool
		sent    int
	}{
		"404": {404, nil, 1}, "409": {409, nil, 1}, "400": {400, nil, 1}, "403": {403, nil, 2}, "429": {429, nil, 2}, "500": {500, nil, 2}, "501": {501, nil, 2},
		"of Limited": {409, func(r *http.Response) bool { return r.StatusCode == 409 }, 2}, "not of Limited": {409, func(r *http.Response) bool { return false }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				tr := &client.Transport{Limiter: limiter(memstore.New()), Key: client.ByHost, Retries: 3, Limited: c.limited}
				tr.Base = roundTrip(func(*http.Request) (*http.Response, error) {
					if sent++; sent > 1 {
						return respond(200, ""), nil
					}
					return respond(c.status, exhausted), nil
				})
				begun := time.Now()
				if _, err := tr.RoundTrip(get(t.Context(), t)); err != nil || sent != c.sent {
					t.Errorf("got %v, sent %d times, want %d", err, sent, c.sent)
				}
				paused := testkit.Peek(t, tr.Limiter, "partner.example").RetryAfter + time.Since(begun)
				if want := map[bool]time.Duration{true: time.Minute}[name != "not of Limited"]; paused != want {
					t.Errorf("a pause of %v, want %v", paused, want)
				}
			})
		})
	}
}

// A request that Base sends again by itself is charged as often.
func TestTransport_ChargesRepetitionsOfBase(t *testing.T) {
	var calls atomic.Int64 // the second call may still run when the third begins
	url := server(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 2 {
			panic(http.ErrAbortHandler)
		}
	})
	l := limiter(memstore.New(), core.SlidingLog("rate", core.PerHour(100)))
	tr := &client.Transport{Limiter: l, Key: func(*http.Request) string { return "partner.example" }, Base: &http.Transport{}}
	for range 2 {
		r, err := (&http.Client{Transport: tr}).Get(url)
		testkit.Must(t, err)
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	if left(t, l, "rate") != 97 || calls.Load() != 3 {
		t.Errorf("%d calls, and %d of 100 are left", calls.Load(), left(t, l, "rate"))
	}
}

// A Transport does not repeat a request that one inside of it has not sent.
func TestTransport_RetriesOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &client.Transport{Limiter: limiter(memstore.New(), core.InFlight("places", 1)), Key: client.ByHost, MaxWait: time.Second, Base: always(200, "")}
		if _, err := inner.Limiter.Acquire(t.Context(), "partner.example"); err != nil {
			t.Fatal(err)
		}
		tr := &client.Transport{Limiter: limiter(memstore.New()), Key: client.ByHost, Retries: 3, Base: inner}
		begun := time.Now()
		if _, err := tr.RoundTrip(get(t.Context(), t)); !errors.Is(err, core.ErrDeadlineTooNear) || time.Since(begun) != time.Second {
			t.Errorf("got %v after %v", err, time.Since(begun))
		}
	})
}

// A place is free after a panic of Limited.
func TestTransport_LimitedPanics(t *testing.T) {
	l := limiter(memstore.New(), core.InFlight("places", 1))
	tr := &client.Transport{Limiter: l, Key: client.ByHost, Base: always(200, ""), Limited: func(*http.Response) bool { panic("boom") }}
	testkit.Panics(t, "boom", func() { _, _ = tr.RoundTrip(get(t.Context(), t)) })
	if left(t, l, "places") != 1 {
		t.Error("the place is taken")
	}
}

// A request whose context ends while it waits to be sent again gets its last response.
func TestTransport_RetriesEnd(t *testing.T) {
	for name, end := range map[string]func(time.Duration) func(*http.Request) *http.Request{
		"Cancel": withCancel,
		"a context": func(d time.Duration) func(*http.Request) *http.Request {
			return func(r *http.Request) *http.Request {
				ctx, cancel := context.WithCancel(r.Context())
				time.AfterFunc(d, cancel)
				return r.WithContext(ctx)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := &client.Transport{Limiter: limiter(memstore.New()), Key: client.ByHost, Retries: 5, Base: always(500, "")}
				begun := time.Now()
				r, err := tr.RoundTrip(end(2 * time.Second)(get(t.Context(), t)))
				if err != nil || r.StatusCode != 500 || time.Since(begun) != 2*time.Second {
					t.Errorf("got %v, %v after %v", r, err, time.Since(begun))
				}
			})
		})
	}
}

// Errors that the next attempt would have, too, are not repeated. A server that has restarted is found again.
func TestTransport_RetriesOfConnections(t *testing.T) {
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer untrusted.Close()
	attempts := 0
	fails := server(t, func(w http.ResponseWriter, _ *http.Request) {
		if attempts++; attempts > 1 {
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	})
	for name, c := range map[string]struct {
		url      string
		attempts int
		ok       bool
	}{
		"a certificate":            {untrusted.URL, 1, false},
		"an unknown protocol":      {"gopher://partner.example/", 1, false},
		"a connection that breaks": {fails, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			var s storetest.Fake
			tr := &client.Transport{Limiter: limiter(&s), Key: client.ByHost, Retries: 1, Base: &http.Transport{}}
			r, err := (&http.Client{Transport: tr}).Get(c.url)
			if (err == nil) != c.ok || s.Calls() != c.attempts {
				t.Errorf("got %v, %v after %d attempts, want %d", r, err, s.Calls(), c.attempts)
			}
			if err == nil {
				_ = r.Body.Close()
			}
		})
	}
}
