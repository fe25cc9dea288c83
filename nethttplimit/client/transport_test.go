package client_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
	"github.com/weir-go/weir/nethttplimit/client"
)

// limiter returns a limiter on s with a Pause and rules.
func limiter(s core.Store, rules ...core.Rule) *core.Limiter {
	return core.Must(core.New(s, append([]core.Rule{core.Pause("pause")}, rules...)...))
}

// roundTrip is an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	return f(r)
}

// respond returns a response with a status, the lines of a header, and a body of 4 bytes.
func respond(status int, lines string) *http.Response {
	return &http.Response{StatusCode: status, Header: header(lines), Body: io.NopCloser(strings.NewReader("body"))}
}

// always is a server with one answer.
func always(status int, lines string) http.RoundTripper {
	return roundTrip(func(*http.Request) (*http.Response, error) { return respond(status, lines), nil })
}

func get(ctx context.Context, t *testing.T) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", "http://partner.example/path", nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// closing is a body that notes that it was closed.
type closing struct {
	io.Reader
	closed atomic.Int64
}

func (c *closing) Close() error {
	c.closed.Add(1)
	return nil
}

func left(t *testing.T, l *core.Limiter, rule string) int {
	t.Helper()
	d, err := l.Peek(t.Context(), "partner.example")
	if err != nil {
		t.Fatal(err)
	}
	s, _ := d.StateOf(rule)
	return s.Remaining
}

func TestNew_Panics(t *testing.T) {
	l := limiter(memstore.New())
	for name, f := range map[string]func(){
		"no limiter": func() { client.New(nil, client.ByHost) },
		"no key":     func() { client.New(l, nil) },
		"no pause": func() {
			client.New(core.Must(core.New(memstore.New(), core.TokenBucket("rate", core.PerSecond(1)))), client.ByHost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

// If nothing is sent, the body is closed once, and the error says why.
func TestTransport_NotSent(t *testing.T) {
	for name, c := range map[string]struct {
		limit  string // the exhausted one
		t      client.Transport
		change func(r *http.Request) *http.Request
		want   error
		text   string
		after  time.Duration
	}{
		"a rate":               {"rate", client.Transport{MaxWait: 30 * time.Second}, nil, core.ErrDeadlineTooNear, "1m0s to wait", 0},
		"a pause":              {"pause", client.Transport{MaxWait: time.Minute}, nil, core.ErrDeadlineTooNear, "1h0m0s to wait", 0},
		"a place":              {"places", client.Transport{MaxWait: time.Minute}, nil, core.ErrDeadlineTooNear, "not admitted within 1m0s", time.Minute},
		"the deadline":         {"rate", client.Transport{}, withTimeout(time.Second), core.ErrDeadlineTooNear, "1m0s to wait", 0},
		"the end of ctx":       {"places", client.Transport{MaxWait: time.Hour}, withTimeout(time.Second), context.DeadlineExceeded, "", time.Second},
		"the earlier MaxWait":  {"places", client.Transport{MaxWait: time.Second}, withTimeout(time.Hour), core.ErrDeadlineTooNear, "within 1s", time.Second},
		"the earlier deadline": {"rate", client.Transport{MaxWait: time.Hour}, withTimeout(time.Second), core.ErrDeadlineTooNear, "1m0s to wait", 0},
		"Cancel":               {"places", client.Transport{}, withCancel(2 * time.Second), context.Canceled, "", 2 * time.Second},
		"no limiter":           {"", client.Transport{}, nil, nil, "no Limiter", 0},
		"a negative MaxWait":   {"rate", client.Transport{MaxWait: -1}, nil, nil, "negative", 0},
		"a negative Longest":   {"rate", client.Transport{Longest: -1}, nil, nil, "negative", 0},
		"a negative Retries":   {"rate", client.Transport{Retries: -1}, nil, nil, "negative", 0},
		"no Pause":             {"none", client.Transport{}, nil, nil, "no Pause", 0},
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

func withCancel(d time.Duration) func(*http.Request) *http.Request {
	return func(r *http.Request) *http.Request {
		cancelled := make(chan struct{})
		//lint:ignore SA1019 callers may still use it
		r.Cancel = cancelled
		time.AfterFunc(d, func() { close(cancelled) })
		return r
	}
}

func withTimeout(d time.Duration) func(*http.Request) *http.Request {
	return func(r *http.Request) *http.Request {
		ctx, cancel := context.WithTimeout(r.Context(), d)
		context.AfterFunc(ctx, cancel)
		return r.WithContext(ctx)
	}
}

// One response pauses the key for all processes, here limiters, at most for Longest, and never for less than another
// response has said.
func TestTransport_Pause(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		header  string
		longest time.Duration
		before  time.Duration // the rest of an earlier pause
		want    time.Duration
	}{
		"429":                            {429, "Retry-After: 3", 0, 0, 3 * time.Second},
		"429 without a time":             {429, "", 0, 0, time.Second},
		"503":                            {503, "Retry-After: 3", 0, 0, 3 * time.Second},
		"503 without a time":             {503, "", 0, 0, 0},
		"200 with a time":                {200, "Retry-After: 3", 0, 0, 0},
		"500 with a time":                {500, "Retry-After: 3", 0, 0, 0},
		"a day":                          {429, "Retry-After: 86400", 0, 0, 15 * time.Minute},
		"a day, at most an hour":         {429, "Retry-After: 86400", time.Hour, 0, time.Hour},
		"an earlier end than before":     {429, "Retry-After: 3", 0, 10 * time.Second, 10 * time.Second},
		"an end that is now":             {429, "Retry-After: 0", 0, 0, 0},
		"an end that is now, in a pause": {429, "Retry-After: 0", 0, 10 * time.Second, 10 * time.Second},
		"a later end than the one known": {429, "Retry-After: 30", 0, 10 * time.Second, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				one, other := limiter(s), limiter(s)
				sends := client.Transport{Limiter: one, Key: client.ByHost, Longest: c.longest, Base: always(c.status, c.header)}
				begun := time.Now()
				if c.before > 0 {
					sends.Base = roundTrip(func(*http.Request) (*http.Response, error) { // it was sent before the pause
						if err := other.Pause(t.Context(), "partner.example", c.before); err != nil {
							t.Error(err)
						}
						return respond(c.status, c.header), nil
					})
				}
				r, err := sends.RoundTrip(get(t.Context(), t))
				if err != nil || r.StatusCode != c.status || time.Since(begun) != 0 {
					t.Fatalf("got %v, %v after %v", r, err, time.Since(begun))
				}
				var wg sync.WaitGroup
				for _, l := range []*core.Limiter{one, other} {
					wg.Go(func() {
						later := client.Transport{Limiter: l, Key: client.ByHost, Base: always(200, "")}
						if _, err := later.RoundTrip(get(t.Context(), t)); err != nil {
							t.Error(err)
						}
						if got := time.Since(begun); got < c.want || got > c.want+c.want/20 {
							t.Errorf("a request was sent after %v, want %v", got, c.want)
						}
					})
				}
				wg.Wait()
			})
		})
	}
}

// A response that arrives at the end of its context pauses the key, too.
func TestTransport_PauseAfterEnd(t *testing.T) {
	l := limiter(memstore.New())
	ctx, cancel := context.WithCancel(t.Context())
	tr := client.New(l, client.ByHost)
	tr.Base = roundTrip(func(*http.Request) (*http.Response, error) {
		cancel()
		return respond(429, "Retry-After: 3"), nil
	})
	if _, err := tr.RoundTrip(get(ctx, t)); err != nil {
		t.Fatal(err)
	}
	if d, err := l.Peek(t.Context(), "partner.example"); err != nil || d.Allowed {
		t.Errorf("got %v, %v, want a pause", d, err)
	}
}

// A request is sent again only if that has no other effect, and if there is time.
func TestTransport_Retries(t *testing.T) {
	text := func() io.ReadCloser { return io.NopCloser(strings.NewReader("text")) }
	for name, c := range map[string]struct {
		method  string
		body    bool
		again   bool // the body can be had again
		header  string
		retries int
		maxWait time.Duration
		timeout time.Duration
		status  int
		sent    int
		got     int
	}{
		"none":                      {"GET", false, false, "", 0, 0, 0, 429, 1, 429},
		"GET":                       {"GET", false, false, "", 1, 0, 0, 429, 2, 200},
		"no method":                 {"", false, false, "", 1, 0, 0, 429, 2, 200},
		"PUT with a body":           {"PUT", true, true, "", 1, 0, 0, 429, 2, 200},
		"PUT, a body for one time":  {"PUT", true, false, "", 1, 0, 0, 429, 1, 429},
		"POST":                      {"POST", true, true, "", 1, 0, 0, 429, 1, 429},
		"POST with a key":           {"POST", true, true, "Idempotency-Key: 7", 1, 0, 0, 503, 2, 200},
		"in time":                   {"GET", false, false, "", 1, 4 * time.Second, 0, 429, 2, 200},
		"MaxWait is over":           {"GET", false, false, "", 1, 3 * time.Second, 0, 429, 1, 429},
		"the deadline is too near":  {"GET", false, false, "", 1, 0, 2 * time.Second, 429, 1, 429},
		"a status without a pause":  {"GET", false, false, "", 5, 0, 0, 500, 1, 500},
		"more retries than answers": {"DELETE", false, false, "", 9, 0, 0, 429, 2, 200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				base := roundTrip(func(r *http.Request) (*http.Response, error) {
					if sent++; sent > 1 {
						return respond(200, ""), nil
					}
					return respond(c.status, "Retry-After: 3"), nil
				})
				l := limiter(memstore.New(), core.InFlight("places", 1), core.TokenBucket("rate", core.PerSecond(10)))
				tr := client.Transport{Limiter: l, Key: client.ByHost, Base: base, MaxWait: c.maxWait, Retries: c.retries}
				r := get(t.Context(), t)
				if c.timeout > 0 {
					r = withTimeout(c.timeout)(r)
				}
				r.Method = c.method
				for k, v := range header(c.header) {
					r.Header[k] = v
				}
				if c.body {
					r.Body = text()
				}
				if c.again {
					r.GetBody = func() (io.ReadCloser, error) { return text(), nil }
				}
				response, err := tr.RoundTrip(r)
				if err != nil || response.StatusCode != c.got || sent != c.sent {
					t.Fatalf("got %v, %v, sent %d times, want %d and %d times", response, err, sent, c.got, c.sent)
				}
				if left(t, l, "places") != 0 {
					t.Error("the response was read, which may take long")
				}
				_ = response.Body.Close()
				if left(t, l, "places") != 1 {
					t.Error("the place is not free")
				}
			})
		})
	}
}

// failing is a body whose Read fails.
type failing struct{ closing }

func (*failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// A place is taken until the response has been read, and no longer.
func TestTransport_Places(t *testing.T) {
	read := func(_ func(), r *http.Response) { _, _ = io.ReadAll(r.Body) }
	for name, c := range map[string]struct {
		method string
		status int
		body   io.ReadCloser
		end    func(cancel func(), r *http.Response) // nil if the place is free at once
	}{
		"read to the end":      {"GET", 200, io.NopCloser(strings.NewReader("text")), read},
		"an empty body":        {"GET", 200, io.NopCloser(strings.NewReader("")), read},
		"closed":               {"GET", 200, io.NopCloser(strings.NewReader("text")), func(_ func(), r *http.Response) { _ = r.Body.Close() }},
		"closed twice":         {"GET", 200, io.NopCloser(strings.NewReader("text")), func(_ func(), r *http.Response) { _, _ = r.Body.Close(), r.Body.Close() }},
		"an error of Read":     {"GET", 500, new(failing), read},
		"the end of ctx":       {"GET", 200, io.NopCloser(strings.NewReader("text")), func(cancel func(), _ *http.Response) { cancel() }},
		"without a body":       {"GET", 200, http.NoBody, nil},
		"HEAD":                 {"HEAD", 200, io.NopCloser(strings.NewReader("")), nil},
		"204":                  {"GET", 204, io.NopCloser(strings.NewReader("")), nil},
		"304":                  {"GET", 304, io.NopCloser(strings.NewReader("")), nil},
		"a limited response":   {"GET", 429, io.NopCloser(strings.NewReader("text")), read},
		"an error of the Base": {"GET", 0, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limiter(memstore.New(), core.InFlight("places", 2))
				tr := client.Transport{Limiter: l, Key: client.ByHost, Base: roundTrip(func(*http.Request) (*http.Response, error) {
					if c.status == 0 {
						return nil, io.ErrUnexpectedEOF
					}
					r := respond(c.status, "")
					r.Body = c.body
					return r, nil
				})}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := get(ctx, t)
				r.Method = c.method
				response, _ := tr.RoundTrip(r)
				if c.end != nil {
					if status := response.StatusCode; status != 429 && left(t, l, "places") != 1 {
						t.Errorf("%d places are free before the end", left(t, l, "places"))
					}
					c.end(cancel, response)
				}
				synctest.Wait()
				if err := l.Pause(t.Context(), "partner.example", 0); err != nil {
					t.Fatal(err)
				}
				if left(t, l, "places") != 2 {
					t.Errorf("%d places are free after the end", left(t, l, "places"))
				}
			})
		})
	}
}

// Without places, the body of a response is the one that Base returned. The request is not changed.
func TestTransport_Unchanged(t *testing.T) {
	body := io.NopCloser(strings.NewReader("text"))
	var sent *http.Request
	tr := client.New(limiter(memstore.New(), core.TokenBucket("rate", core.PerSecond(10))), client.ByHost)
	tr.Base = roundTrip(func(r *http.Request) (*http.Response, error) {
		sent = r
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body, Request: r}, nil
	})
	r := get(t.Context(), t)
	r.Header.Set("X-Own", "1")
	before := *r
	response, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if response.Body != body || response.Request != r {
		t.Errorf("got the body %v of the request %p, want %v of %p", response.Body, response.Request, body, r)
	}
	if fmt.Sprint(*r) != fmt.Sprint(before) || r.Context() != before.Context() || sent == r {
		t.Errorf("got %v, want %v", *r, before)
	}
}

func TestTransport_KeyOfNoLimit(t *testing.T) {
	l := limiter(memstore.New(), core.InFlight("places", 1))
	tr := client.New(l, func(*http.Request) string { return "" })
	tr.Base = always(429, "Retry-After: 60")
	for range 3 {
		if r, err := tr.RoundTrip(get(t.Context(), t)); err != nil || r.StatusCode != 429 {
			t.Errorf("got %v, %v", r, err)
		}
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

func TestByHost(t *testing.T) {
	for text, want := range map[string]string{
		"http://partner.example/a": "partner.example", "https://Partner.Example:8443/": "partner.example:8443", "http://[2001:DB8::1]/": "[2001:db8::1]",
	} {
		u, err := url.Parse(text)
		if got := client.ByHost(&http.Request{URL: u, Host: "other.example"}); got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
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

// server starts a server and returns its URL.
func server(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// A charge is refunded only if there was no connection for the request.
func TestTransport_Refund(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	breaks := server(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	for name, c := range map[string]struct {
		url  string
		base http.RoundTripper
		left int
	}{
		"the end of ctx":            {closed.URL, cancelled, 10},
		"no connection":             {closed.URL, nil, 10},
		"the connection is closed":  {breaks, nil, 9},
		"a Base that does not tell": {closed.URL, roundTrip(func(*http.Request) (*http.Response, error) { return nil, io.EOF }), 9},
	} {
		t.Run(name, func(t *testing.T) {
			l := limiter(memstore.New(), core.TokenBucket("rate", core.PerHour(10)), core.InFlight("places", 1))
			tr := &client.Transport{Limiter: l, Key: func(*http.Request) string { return "partner.example" }, Base: c.base}
			ctx := ctx
			if c.base != cancelled {
				ctx = t.Context()
			}
			r, err := http.NewRequestWithContext(ctx, "POST", c.url, strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := (&http.Client{Transport: tr}).Do(r); err == nil {
				t.Fatal("no error")
			}
			if left(t, l, "rate") != c.left || left(t, l, "places") != 1 {
				t.Errorf("%d of the rate and %d places are left, want %d and 1", left(t, l, "rate"), left(t, l, "places"), c.left)
			}
		})
	}
}

// Redirects between two hosts and back find a place each time, also if there is only one.
func TestTransport_Redirects(t *testing.T) {
	var a, b string
	a = server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/end" {
			_, _ = io.WriteString(w, "end")
			return
		}
		http.Redirect(w, r, b+"/back", http.StatusFound)
	})
	b = server(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, a+"/end", http.StatusFound) })
	for name, key := range map[string]func(*http.Request) string{"a key": func(*http.Request) string { return "k" }, "ByHost": client.ByHost} {
		tr := client.New(limiter(memstore.New(), core.InFlight("places", 1)), key)
		r, err := (&http.Client{Transport: tr, Timeout: 10 * time.Second}).Get(a + "/begin")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if text, err := io.ReadAll(r.Body); string(text) != "end" || err != nil {
			t.Errorf("%s: got %q, %v", name, text, err)
		}
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

// The connection of a 101 can be written to, and has its place until it is closed.
func TestTransport_Upgrade(t *testing.T) {
	url := server(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := rw.ReadString('\n')
		_, _ = io.WriteString(conn, line)
		rest, _ := io.ReadAll(rw)
		_, _ = io.WriteString(conn, "end of "+string(rest))
	})
	l := limiter(memstore.New(), core.InFlight("places", 1))
	tr := client.New(l, func(*http.Request) string { return "partner.example" })
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	response, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	conn, ok := response.Body.(io.ReadWriteCloser)
	if !ok || response.StatusCode != 101 {
		t.Fatalf("got %d with a %T", response.StatusCode, response.Body)
	}
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		t.Error(err)
	}
	text := make([]byte, 6)
	if _, err := io.ReadFull(conn, text); string(text) != "hello\n" || err != nil || left(t, l, "places") != 0 {
		t.Errorf("got %q, %v, and %d places", text, err, left(t, l, "places"))
	}
	if err := conn.Close(); err != nil || left(t, l, "places") != 1 {
		t.Errorf("got %v, and %d places", err, left(t, l, "places"))
	}

	// A proxy passes on that one direction has ended.
	proxy := httptest.NewServer(&httputil.ReverseProxy{Transport: tr, Rewrite: func(p *httputil.ProxyRequest) {
		p.Out.URL.Scheme, p.Out.URL.Host = r.URL.Scheme, r.URL.Host
	}})
	defer proxy.Close()
	direct, err := net.Dial("tcp", proxy.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	_, _ = io.WriteString(direct, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	from := bufio.NewReader(direct)
	if response, err = http.ReadResponse(from, r); err != nil || response.StatusCode != 101 {
		t.Fatalf("got %v, %v through a proxy", response, err)
	}
	_, _ = io.WriteString(direct, "hello\nrest")
	if err := direct.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(from); string(rest) != "hello\nend of rest" || err != nil {
		t.Errorf("got %q, %v through a proxy", rest, err)
	}
}

// A body that cannot end one direction says so.
func TestTransport_CloseWrite(t *testing.T) {
	tr := client.New(limiter(memstore.New(), core.InFlight("places", 1)), client.ByHost)
	tr.Base = roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 101, Body: struct {
			io.ReadWriter
			io.Closer
		}{new(bytes.Buffer), new(closing)}}, nil
	})
	r, err := tr.RoundTrip(get(t.Context(), t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if w, ok := r.Body.(interface{ CloseWrite() error }); !ok || !errors.Is(w.CloseWrite(), http.ErrNotSupported) {
		t.Errorf("got a %T", r.Body)
	}
}

// A Base with a fault keeps no place, and its results are passed on.
func TestTransport_FaultOfBase(t *testing.T) {
	ok := respond(200, "")
	for name, c := range map[string]struct {
		base     roundTrip
		response *http.Response
		err      error
	}{
		"neither": {func(*http.Request) (*http.Response, error) { return nil, nil }, nil, nil},
		"both":    {func(*http.Request) (*http.Response, error) { return ok, io.EOF }, ok, io.EOF},
		"a panic": {func(*http.Request) (*http.Response, error) { panic("base") }, nil, nil},
		"Goexit":  {func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil }, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := limiter(memstore.New(), core.InFlight("places", 1))
			tr := &client.Transport{Limiter: l, Key: client.ByHost, Base: c.base}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				defer func() {
					if p := recover(); p != nil && p != "base" {
						t.Errorf("panic: %v", p)
					}
				}()
				response, err := tr.RoundTrip(get(t.Context(), t))
				if response != c.response || err != c.err {
					t.Errorf("got %v, %v, want %v, %v", response, err, c.response, c.err)
				}
			}()
			<-ended
			if left(t, l, "places") != 1 {
				t.Error("the place is not free")
			}
		})
	}
}

// HTTP/2, a proxy, and connections that are used again.
func TestTransport_Base(t *testing.T) {
	h2 := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	h2.EnableHTTP2 = true
	h2.StartTLS()
	defer h2.Close()
	proxy := server(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "proxy for "+r.URL.Host) })
	idle := 0
	for name, c := range map[string]struct {
		url  string
		base http.RoundTripper
		want string
	}{
		"HTTP/2":  {h2.URL, h2.Client().Transport, "HTTP/2.0"},
		"a proxy": {"http://partner.example/", &http.Transport{Proxy: func(r *http.Request) (*url.URL, error) { return url.Parse(proxy) }}, "proxy for partner.example"},
		"a Transport inside": {h2.URL, &client.Transport{
			Limiter: limiter(memstore.New(), core.InFlight("inner", 1)), Key: client.ByHost, Base: h2.Client().Transport,
		}, "HTTP/2.0"},
		"idle": {"http://partner.example/", countIdle{always(200, ""), &idle}, "body"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := &client.Transport{Limiter: limiter(memstore.New(), core.InFlight("places", 1)), Key: client.ByHost, Base: c.base}
			hc := &http.Client{Transport: tr}
			for range 3 {
				r, err := hc.Get(c.url)
				if err != nil {
					t.Fatal(err)
				}
				if text, err := io.ReadAll(r.Body); string(text) != c.want || err != nil {
					t.Errorf("got %q, %v, want %q", text, err, c.want)
				}
			}
			hc.CloseIdleConnections()
		})
	}
	if idle != 1 {
		t.Errorf("CloseIdleConnections has reached Base %d times", idle)
	}
}

type countIdle struct {
	http.RoundTripper
	n *int
}

func (c countIdle) CloseIdleConnections() { *c.n++ }

// A server with the middleware and a client: the round trip succeeds at the first attempt after the pause.
func TestTransport_Weir(t *testing.T) {
	at := make(chan time.Time, 100)
	api := core.Must(core.New(memstore.New(), core.FixedWindow("api", core.PerSecond(2)).FromFirst()))
	limit := nethttplimit.New(api, keyfunc.Constant("all"))
	s := httptest.NewServer(limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { at <- time.Now() })))
	defer s.Close()
	tr := client.New(limiter(memstore.New()), client.ByHost)
	limited := 0
	tr.Base = roundTrip(func(r *http.Request) (*http.Response, error) {
		response, err := http.DefaultTransport.RoundTrip(r)
		if err == nil && response.StatusCode == 429 {
			limited++
		}
		return response, err
	})
	tr.Retries = 1
	for range 4 {
		r, err := (&http.Client{Transport: tr}).Get(s.URL)
		if err != nil || r.StatusCode != 200 {
			t.Fatalf("got %v, %v", r, err)
		}
		_ = r.Body.Close()
	}
	if limited != 1 || len(at) != 4 {
		t.Errorf("%d requests were limited, and %d admitted, want 1 and 4", limited, len(at))
	}
}

// A request that is not admitted again in time gets the response, also if the only place was its own, and a long response
// is not kept.
func TestTransport_NotAgain(t *testing.T) {
	for name, c := range map[string]struct {
		size, sent int
		busy       bool // others take the rate meanwhile
		getBody    error
	}{
		"admitted again":  {100, 2, false, nil},
		"a rate":          {100, 1, true, nil},
		"a long response": {1 << 20, 1, false, nil},
		"an empty one":    {0, 2, false, nil},
		"without a body":  {-1, 2, false, nil},
		"GetBody fails":   {100, 1, false, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, perSecond := memstore.New(), core.TokenBucket("rate", core.PerMinute(60).WithBurst(1))
				l, rate := limiter(s, core.InFlight("places", 1), perSecond), core.Must(core.New(s, perSecond))
				sent, limited := 0, &closing{Reader: strings.NewReader(strings.Repeat("x", max(0, c.size)))}
				tr := &client.Transport{Limiter: l, Key: client.ByHost, MaxWait: 4 * time.Second, Retries: 1}
				tr.Base = roundTrip(func(*http.Request) (*http.Response, error) {
					if sent++; sent > 1 {
						return respond(200, ""), nil
					}
					r := respond(429, "Retry-After: 3")
					if r.Body = nil; c.size >= 0 {
						r.Body = limited
					}
					return r, nil
				})
				if c.busy {
					time.AfterFunc(time.Second, func() {
						if err := rate.Debit(t.Context(), "partner.example", 9); err != nil {
							t.Error(err)
						}
					})
				}
				request, body := get(t.Context(), t), [2]closing{{Reader: strings.NewReader("first")}, {Reader: strings.NewReader("second")}}
				request.Method, request.Body = "PUT", &body[0]
				opened := 0
				request.GetBody = func() (io.ReadCloser, error) { opened++; return &body[1], c.getBody }
				r, err := tr.RoundTrip(request)
				if err != nil {
					t.Fatal(err)
				}
				if rest, _ := io.ReadAll(&body[1]); len(rest) == 0 != (c.sent == 2) {
					t.Errorf("%q of the second body was not sent", rest)
				}
				if again := c.sent == 2; (opened == 1) != (again || c.getBody != nil) || (body[1].closed.Load() == 1) != again || (limited.closed.Load() == 1) != (c.size >= 0 && c.size <= 100) {
					t.Errorf("the second body was opened %d times, and closed %d times, that of the response %d times", opened, body[1].closed.Load(), limited.closed.Load())
				}
				text, err := io.ReadAll(r.Body)
				if want := map[bool]int{true: 4, false: c.size}[c.sent == 2]; len(text) != want || err != nil || sent != c.sent {
					t.Errorf("got %d bytes, %v, sent %d times", len(text), err, sent)
				}
				_ = r.Body.Close()
				if left(t, l, "places") != 1 {
					t.Error("the place is not free")
				}
			})
		})
	}
}

// A response whose body does not arrive within a second, or before the end of MaxWait, is returned then.
func TestTransport_SlowResponse(t *testing.T) {
	for _, maxWait := range []time.Duration{0, 4 * time.Second} {
		t.Run(maxWait.String(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testSlowResponse(t, maxWait) }) })
	}
}

func testSlowResponse(t *testing.T, maxWait time.Duration) {
	reader, writer := io.Pipe()
	l := limiter(memstore.New(), core.InFlight("places", 1))
	tr := &client.Transport{Limiter: l, Key: client.ByHost, MaxWait: maxWait, Retries: 1}
	tr.Base = roundTrip(func(*http.Request) (*http.Response, error) {
		r := respond(429, "Retry-After: 3")
		r.Body = reader
		return r, nil
	})
	go func() { _, _ = io.WriteString(writer, "slow") }()
	begun := time.Now()
	r, err := tr.RoundTrip(get(t.Context(), t))
	if err != nil || r.StatusCode != 429 || time.Since(begun) != time.Second {
		t.Fatalf("got %v, %v after %v", r, err, time.Since(begun))
	}
	if text, err := io.ReadAll(r.Body); string(text) != "slow" || err == nil {
		t.Errorf("got %q, %v", text, err)
	}
	if err := l.Pause(t.Context(), "partner.example", 0); err != nil || left(t, l, "places") != 1 {
		t.Errorf("got %v, and the place is not free", err)
	}
}

// A body with a place has the trailers of the response, and ends with http.Client.Timeout.
func TestTransport_Body(t *testing.T) {
	ended := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-End")
		_, _ = io.WriteString(w, "text")
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/open" {
			<-ended
		}
		w.Header().Set("X-End", "end")
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	defer close(ended)
	l := limiter(memstore.New(), core.InFlight("places", 1))
	tr := &client.Transport{Limiter: l, Key: func(*http.Request) string { return "partner.example" }}
	for _, base := range []http.RoundTripper{s.Client().Transport, &http.Transport{TLSClientConfig: s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()}} {
		tr.Base = base
		r, err := (&http.Client{Transport: tr}).Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		if string(text) != "text" || err != nil || r.Trailer.Get("X-End") != "end" || left(t, l, "places") != 1 {
			t.Errorf("%s: got %q, %v, %v, and %d places", r.Proto, text, err, r.Trailer, left(t, l, "places"))
		}
		r, err = (&http.Client{Transport: tr, Timeout: 100 * time.Millisecond}).Get(s.URL + "/open")
		if err != nil {
			t.Fatal(err)
		}
		text, err = io.ReadAll(r.Body)
		if string(text) != "text" || !errors.Is(err, context.DeadlineExceeded) || left(t, l, "places") != 1 {
			t.Errorf("%s: got %q, %v, and %d places", r.Proto, text, err, left(t, l, "places"))
		}
	}
}

// Many goroutines with one Transport free their places.
func TestTransport_Concurrent(t *testing.T) {
	var sent atomic.Int64
	url := server(t, func(w http.ResponseWriter, _ *http.Request) {
		if sent.Add(1)%7 == 0 {
			w.Header().Set("Retry-After", "0.01")
			w.WriteHeader(429)
		}
		_, _ = io.WriteString(w, strings.Repeat("x", 5000))
	})
	l := limiter(memstore.New(), core.InFlight("places", 4))
	tr := &client.Transport{Limiter: l, Key: func(*http.Request) string { return "partner.example" }, Retries: 9}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for range 3 {
				r, err := (&http.Client{Transport: tr, Timeout: time.Minute}).Get(url)
				if err != nil || r.StatusCode != 200 {
					t.Errorf("got %v, %v", r, err)
					return
				}
				switch i % 3 {
				case 0:
					_, _ = io.Copy(io.Discard, r.Body)
				case 1:
					wg.Go(func() { _, _ = io.Copy(io.Discard, r.Body) })
				}
				_ = r.Body.Close()
			}
		})
	}
	wg.Wait()
	if left(t, l, "places") != 4 {
		t.Errorf("%d places are free, want 4", left(t, l, "places"))
	}
}
