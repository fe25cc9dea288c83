package client_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
	"github.com/weir-go/weir/nethttplimit/client"
)

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
		"200 that is exhausted":          {200, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 3", 0, 0, 0},
		"304 with a time":                {304, "Retry-After: 3", 0, 0, 0},
		"500 with a time":                {500, "Retry-After: 3", 0, 0, 3 * time.Second},
		"403 with a time":                {403, "Retry-After: 3", 0, 0, 3 * time.Second},
		"403 that is exhausted":          {403, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 3", 0, 0, 3 * time.Second},
		"403, and units are left":        {403, "X-RateLimit-Remaining: 9\nX-RateLimit-Reset: 3", 0, 0, 0},
		"403 with a window":              {403, "X-RateLimit-Reset: 3", 0, 0, 0},
		"429 with a window":              {429, "X-RateLimit-Reset: 3", 0, 0, 3 * time.Second},
		"404 of a policy with units":     {404, `RateLimit: "day";r=5;t=3600`, 0, 0, 0},
		"404 of an exhausted policy":     {404, `RateLimit: "day";r=0;t=30`, 0, 0, 30 * time.Second},
		"404 without a time":             {404, "", 0, 0, 0},
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
						if got := time.Since(begun); got < c.want || got > c.want+c.want/4 {
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
		"404":                       {"GET", false, false, "", 5, 0, 0, 404, 1, 404},
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
			testkit.Must(t, err)
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
				testkit.Must(t, err)
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
				testkit.Must(t, err)
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
