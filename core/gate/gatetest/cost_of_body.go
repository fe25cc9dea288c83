package gatetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

// maxOfBody is the longest body of the tests of CostOfBody, and units the function, whose result is the member
// units of an object. A body that is not JSON has an error without a text for the client.
const maxOfBody = 64

func units(_ context.Context, _ *http.Request, body []byte) (int, error) {
	if len(body) == 0 {
		return 1, nil
	}
	var object struct{ Units *int }
	if err := json.Unmarshal(body, &object); err != nil {
		return 0, errSecret
	}
	if object.Units == nil {
		return 0, &keyfunc.NoKeyError{Detail: "no member units"}
	}
	return *object.Units, nil
}

// testCostOfBody checks the costs of bodies that a client sends to a real server, and that the handler reads them.
func (s *suite) testCostOfBody(t *testing.T) {
	const unknown = "The cost of the request is not known"
	exact := `{"units":3,"padding":"` + strings.Repeat("x", maxOfBody-24) + `"}`
	chunked := func(r *http.Request) { r.ContentLength = -1 }
	field := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for _, c := range []struct {
		name, body string
		change     func(*http.Request)
		status     int
		detail     string
		left       int // of 100 requests; those of the units are in used
		used       int
	}{
		{"a cost", `{"units":30}`, nil, 200, "", 99, 30},
		{"in chunks", `{"units":30}`, chunked, 200, "", 99, 30},
		{"a cost of zero", `{"units":0}`, nil, 200, "", 99, 0},
		{"no body", "", nil, 200, "", 99, 1},
		{"as long as possible", exact, nil, 200, "", 99, 3},
		{"as long as possible, in chunks", exact, chunked, 200, "", 99, 3},
		{"100-continue", `{"units":30}`, field("Expect", "100-continue"), 200, "", 99, 30},
		{"identity", `{"units":30}`, field("Content-Encoding", "identity"), 200, "", 99, 30},
		{"above the capacity", `{"units":1001}`, nil, 429, `Policy \"units\" allows 1000 requests per 3600 s. This request costs more than the policy ever allows.`, 99, 0},
		{"too long", exact + " ", nil, 400, unknown + ": the body is longer than 64 bytes.", 99, 1},
		{"too long, in chunks", exact + " ", chunked, 400, unknown + ": the body is longer than 64 bytes.", 99, 1},
		{"far too long, in chunks", strings.Repeat("x", 300<<10), chunked, 400, unknown + ": the body is longer than 64 bytes.", 99, 1},
		{"gzip", `{"units":30}`, field("Content-Encoding", "gzip"), 400, unknown + ": the body has a Content-Encoding.", 99, 1},
		{"an error", `units`, nil, 400, unknown + ".", 99, 1},
		{"an error with a text", `{}`, nil, 400, unknown + ": no member units.", 99, 1},
		{"a negative cost", `{"units":-1}`, nil, 500, "", 99, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := memory()
			perUnit := core.Must(core.New(store, core.SlidingLog("units", core.PerHour(1000))))
			var read string
			a := s.start(setup{
				Store: store,
				Opts:  []gate.Option{gate.And(perUnit, constant("k"), gate.CostOfBody(maxOfBody, units))},
				Handler: func(w http.ResponseWriter, r *http.Request) {
					data, err := io.ReadAll(r.Body)
					testkit.Must(t, err)
					read = string(data)
					says("ok\n")(w, r)
				},
			})
			r := request("POST", "/v1/orders")
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(c.body)), int64(len(c.body))
			if c.body == "" {
				r.Body = http.NoBody
			}
			if c.change != nil {
				c.change(r)
			}
			got := exchange(t, a, r)
			if got.Status != c.status || c.status != 200 && !strings.Contains(got.Body, detailOf(c.detail)) {
				t.Errorf("got %d %s\n\twant %d %s", got.Status, got.Body, c.status, detailOf(c.detail))
			}
			if c.status == 200 && read != c.body {
				t.Errorf("the handler reads %q, want %q", read, c.body)
			}
			if used := apptest.Taken(t, perUnit, "k"); used != c.used || apptest.Taken(t, a.Limiter, "k") != 100-c.left {
				t.Errorf("%d units and %d requests are counted, want %d and %d", used, apptest.Taken(t, a.Limiter, "k"), c.used, 100-c.left)
			}
		})
	}
	t.Run("not read", s.testBodyNotRead)
	t.Run("charged", s.testBodyCharged)
	t.Run("read once", s.testBodyReadOnce)
	t.Run("settled", s.testCostOfBodySettled)
	t.Run("not sent", s.testBodyNotSent)
	t.Run("slow", s.testSlowBody)
}

func detailOf(text string) string {
	if text == "" {
		return `"status":500,"instance"`
	}
	return `"detail":"` + text + `"`
}

// An unreadable body fails the test when it is read.
type unreadable struct{ t *testing.T }

func (b unreadable) Read([]byte) (int, error) {
	b.t.Error("the body is read")
	return 0, io.ErrUnexpectedEOF
}

// testBodyNotRead checks that a request over a limit of any kind is denied before its body is read, wherever its
// key is in the gate, and so is one about which the Store cannot decide.
func (s *suite) testBodyNotRead(t *testing.T) {
	always := func() core.Rule { return core.SlidingLog("plenty", core.PerHour(1000)) }
	rules := map[string]core.Rule{
		"token bucket":   core.TokenBucket("one", core.PerDay(1)),
		"leaky bucket":   core.LeakyBucket("one", core.PerDay(1)),
		"fixed window":   core.FixedWindow("one", core.PerDay(1)),
		"first event":    core.FixedWindow("one", core.PerDay(1)).FromFirst(),
		"sliding log":    core.SlidingLog("one", core.PerDay(1)),
		"sliding window": core.SlidingWindow("one", core.PerDay(1)),
		"quota":          core.Quota("one", core.Monthly(1)),
		"in flight":      core.InFlight("one", 1),
		"blocked":        core.SlidingLog("one", core.Blocked),
	}
	for name, rule := range rules {
		for _, place := range []string{"first", "last", "the only one", "that of the body"} {
			t.Run(name+"/"+place, func(t *testing.T) {
				store := memory()
				one, plenty := core.Must(core.New(store, rule)), core.Must(core.New(store, always()))
				ofBody := gate.CostOfBody(maxOfBody, units)
				g := setup{Limiter: plenty, Key: constant("first"), Opts: []gate.Option{gate.And(plenty, constant("second"), ofBody), gate.And(one, constant("k"))}}
				switch place {
				case "first":
					g = setup{Limiter: one, Opts: []gate.Option{gate.And(plenty, constant("first"), ofBody)}}
				case "the only one":
					g = setup{Limiter: one, Opts: []gate.Option{ofBody}}
				case "that of the body":
					g = setup{Limiter: plenty, Key: constant("first"), Opts: []gate.Option{gate.And(one, constant("k"), ofBody)}}
				}
				g.Handler = func(http.ResponseWriter, *http.Request) { t.Error("the handler runs") }
				use, err := one.Reserve(t.Context(), "k", 1)
				testkit.Must(t, err)
				a := s.start(g)
				for range 3 { // the key is known to be exhausted after the first denial
					r := request("POST", "/v1/orders")
					r.Body, r.ContentLength = io.NopCloser(unreadable{t}), 12
					if got := record(t, a, r); got.Status != 429 || !strings.Contains(got.Header.Get("RateLimit"), `"one";r=0`) {
						t.Errorf("got %d %s, want a denial by the limit of one", got.Status, got.Header.Get("RateLimit"))
					}
				}
				testkit.Must(t, use.Release(t.Context()))
				for _, key := range []string{"first", "second"} {
					if n := apptest.Taken(t, plenty, key); n != 0 {
						t.Errorf("%d events of %s are counted after denials", n, key)
					}
				}
			})
		}
	}
	for status, opt := range map[int]gate.Option{200: quiet, 503: gate.FailClosed()} {
		a := s.start(setup{Err: errSecret, Opts: []gate.Option{quiet, opt, gate.CostOfBody(maxOfBody, units)}})
		r := request("POST", "/v1/orders")
		r.Body, r.ContentLength = io.NopCloser(unreadable{t}), 12
		if got := record(t, a, r); got.Status != status {
			t.Errorf("the Store fails: got %d, want %d", got.Status, status)
		}
	}
}

// testBodyCharged checks that the limit of another key bounds how often a body is read without an admitted request.
func (s *suite) testBodyCharged(t *testing.T) {
	const most, left = 10, 80
	for _, c := range []struct {
		name, body string
		status     int
	}{
		{"above the capacity", `{"units":1001}`, 429}, {"above the rest", `{"units":90}`, 429},
		{"negative", `{"units":-1}`, 500}, {"an error", `{"units":"x"}`, 400}, {"a panic", "panic", 0},
	} {
		for _, place := range []string{"of the second key", "of the first key"} {
			t.Run(c.name+"/"+place, func(t *testing.T) {
				store := memory()
				address := core.Must(core.New(store, core.FixedWindow("address", core.PerDay(most))))
				tokens := core.Must(core.New(store, core.TokenBucket("tokens", core.PerDay(100))))
				if _, err := tokens.AllowN(t.Context(), "user", 100-left); err != nil {
					t.Fatal(err)
				}
				calls := 0
				cost := gate.CostOfBody(maxOfBody, func(ctx context.Context, r *http.Request, body []byte) (int, error) {
					if calls++; string(body) == "panic" {
						panic(http.ErrAbortHandler)
					}
					return units(ctx, r, body)
				})
				g := setup{Limiter: address, Key: constant("ip"), Opts: []gate.Option{quiet, gate.And(tokens, constant("user"), cost)}}
				if place == "of the first key" {
					g = setup{Limiter: tokens, Key: constant("user"), Opts: []gate.Option{quiet, cost, gate.And(address, constant("ip"), gate.Cost(func(context.Context, *http.Request) int { return 1 }))}}
				}
				g.Handler = func(http.ResponseWriter, *http.Request) { t.Error("the handler runs") }
				a := s.start(g)
				for i := range 3 * most {
					r := request("POST", "/v1/orders")
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader(c.body)), int64(len(c.body))
					want := c.status
					if i >= most {
						want = 429
					}
					func() {
						defer func() { _ = recover() }()
						if got := record(t, a, r); got.Status != want {
							t.Errorf("request %d: got %d, want %d", i, got.Status, want)
						}
					}()
				}
				if n := apptest.Taken(t, address, "ip"); n != most || calls != most {
					t.Errorf("%d requests of %d are counted, and %d bodies were read, want %d", n, 3*most, calls, most)
				}
			})
		}
	}
}

// A counted body counts the bytes that are read.
type counted struct {
	io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

// testBodyReadOnce checks that a key and several costs of one body, and the handler, read it once.
func (s *suite) testBodyReadOnce(t *testing.T) {
	const text = `{"user":"ann","units":7,"padding":"0123456789"}`
	for name, limits := range map[string][2]int64{"the same limits": {maxOfBody, maxOfBody}, "a small limit first": {maxOfBody, 1 << 20}, "a large limit first": {1 << 20, maxOfBody}} {
		store := memory()
		first, second := core.Must(core.New(store, core.SlidingLog("first", core.PerHour(100)))), core.Must(core.New(store, core.SlidingLog("second", core.PerHour(100))))
		body := &counted{Reader: strings.NewReader(text)}
		var read string
		a := s.start(setup{
			Store: store, Key: keyfunc.JSONField("user"),
			Opts: []gate.Option{gate.And(first, constant("k"), gate.CostOfBody(limits[0], units)), gate.And(second, constant("k"), gate.CostOfBody(limits[1], units))},
			Handler: func(_ http.ResponseWriter, r *http.Request) {
				data, _ := io.ReadAll(r.Body)
				read = string(data)
			},
		})
		r := request("POST", "/v1/orders")
		r.Body, r.ContentLength = io.NopCloser(body), -1
		record(t, a, r)
		if n := apptest.Taken(t, first, "k"); n != 7 || apptest.Taken(t, second, "k") != 7 || apptest.Taken(t, a.Limiter, "body:user:ann") != 1 {
			t.Errorf("%s: %d units are counted, want 7 of each limiter", name, n)
		}
		if read != text || body.n != len(text) {
			t.Errorf("%s: the handler reads %q, and %d bytes were read of the client, want %d", name, read, body.n, len(text))
		}
		if a.Store.Calls() != 2+3 { // and those of Taken
			t.Errorf("%s: the Store was called %d times, want twice", name, a.Store.Calls()-3)
		}
	}
}

// testCostOfBodySettled checks that the handler settles the cost of the limiter of the body.
func (s *suite) testCostOfBodySettled(t *testing.T) {
	store := memory()
	perUnit := core.Must(core.New(store, core.SlidingLog("units", core.PerHour(1000))))
	a := s.start(setup{
		Store: store, Opts: []gate.Option{gate.And(perUnit, constant("k"), gate.CostOfBody(maxOfBody, units))},
		Handler: func(w http.ResponseWriter, r *http.Request) {
			if err := gate.Settle(r.Context(), 5); !errors.Is(err, gate.ErrSeveralCosts) {
				t.Errorf("the error of Settle is %v", err)
			}
			testkit.Must(t, gate.SettleFor(r.Context(), perUnit, 12))
			says("ok\n")(w, r)
		},
	})
	r := request("POST", "/v1/orders")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(`{"units":40}`)), 12
	if got := exchange(t, a, r); got.Header.Get("RateLimit") != `"hundred";r=99;t=3600, "units";r=960;t=3600` || apptest.Taken(t, perUnit, "k") != 12 {
		t.Errorf("RateLimit is %s, and %d units are counted, want 12", got.Header.Get("RateLimit"), apptest.Taken(t, perUnit, "k"))
	}
}

// dialed sends text to a server of a, and returns the status and the lines before the response.
func dialed(t *testing.T, h http.Handler, readTimeout time.Duration, text string) (status int, body string) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ReadTimeout = readTimeout
	server.Start()
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	testkit.Must(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, text)
	testkit.Must(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	testkit.Must(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	testkit.Must(t, err)
	return resp.StatusCode, string(data)
}

// testBodyNotSent checks that a client over the limit that sends Expect: 100-continue is not asked for its body.
func (s *suite) testBodyNotSent(t *testing.T) {
	for taken, want := range map[int]int{0: http.StatusContinue, 100: http.StatusTooManyRequests} {
		a := s.start(setup{Opts: []gate.Option{gate.CostOfBody(maxOfBody, units)}})
		if taken > 0 {
			testkit.Admit(t, a.Limiter, "k", taken)
		}
		const head = "POST /v1/orders HTTP/1.1\r\nHost: example.com\r\nContent-Length: 12\r\nExpect: 100-continue\r\n\r\n"
		if got, _ := dialed(t, a, 5*time.Second, head); got != want {
			t.Errorf("with %d taken, the first status is %d, want %d", taken, got, want)
		}
	}
}

// testSlowBody checks that the timeout of the server ends the reading of a body that is never complete: one that is
// shorter than its Content-Length or its chunk, and one without the last chunk.
func (s *suite) testSlowBody(t *testing.T) {
	for name, body := range map[string]string{
		"Content-Length": "Content-Length: 12\r\n\r\n{",
		"chunks":         "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
		"a large chunk":  "Transfer-Encoding: chunked\r\n\r\n3fffffffffffffff\r\n{\r\n",
	} {
		a := s.start(setup{Opts: []gate.Option{gate.CostOfBody(maxOfBody, units)}})
		status, got := dialed(t, a, 200*time.Millisecond, "POST /v1/orders HTTP/1.1\r\nHost: example.com\r\n"+body)
		if want := detailOf("The cost of the request is not known: the body cannot be read."); status != 400 || !strings.Contains(got, want) {
			t.Errorf("%s: got %d %s, want 400 %s", name, status, got, want)
		}
		a.CheckTaken(t, "k", 1)
	}
}
