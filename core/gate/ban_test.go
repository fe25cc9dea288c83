package gate_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/nethttplimit"
)

const banTime = 10 * time.Minute

// A denial that ends a request bans its key, also if it answers a question before the decision about all keys, which charges
// nothing. Denials that end no request, and requests that are refunded, ban nothing.
func TestBan(t *testing.T) {
	window := core.FixedWindow("address", core.PerMinute(3)).FromFirst().BlockFor(banTime)
	queue := core.LeakyBucket("address", core.PerSecond(1).WithBurst(3)).BlockFor(banTime)
	user := core.SlidingLog("user", core.PerHour(1)).BlockFor(time.Hour)
	token := func(token string) func() *http.Request { return func() *http.Request { return with("Token", token) } }
	body := func(body string) func() *http.Request {
		return func() *http.Request {
			r := posts(body)
			r.Header.Set("Token", "ann")
			return r
		}
	}
	ofBody, longDelay := gate.CostOfBody(9, number), gate.MaxDelay(time.Hour)
	type requests struct {
		n          int
		req        func() *http.Request
		status     int
		retryAfter string // of the last one
	}
	for name, c := range map[string]struct {
		address, user  core.Rule
		opts           []gate.Option
		requests       []requests
		address1, ann1 time.Duration // the bans of the address and of the user ann in the end
		taken, ran     int           // of the address, unless it is banned; runs of the handler
	}{
		"the decision about all keys": {window, many, nil, []requests{{3, token("ann"), 200, ""}, {2, token("ann"), 429, "600"}}, banTime, 0, 3, 3},
		"another key": {window, user, nil, []requests{{1, token("ann"), 200, ""}, {4, token("ann"), 429, "3600"}, {1, token("bob"), 200, ""}},
			0, time.Hour, 2, 2},
		"an exhausted address, asked first": {window, many, nil, []requests{{3, token("bad"), 401, ""}, {2, token("ann"), 429, "600"}}, banTime, 0, 3, 0},
		"an exhausted address whose first question is a Peek": {queue, many, []gate.Option{longDelay},
			[]requests{{3, token("bad"), 401, ""}, {2, token("ann"), 429, "600"}}, banTime, 0, 3, 0},
		"the delay is too long": {queue, many, []gate.Option{gate.MaxDelay(time.Millisecond)},
			[]requests{{1, token("bad"), 401, ""}, {2, token("bad"), 429, "1"}, {1, token("ann"), 429, "1"}}, 0, 0, 1, 0},
		"a body, asked with a Peek": {window, many, []gate.Option{ofBody}, []requests{{1, body("3"), 200, ""}, {2, body("1"), 429, "600"}}, banTime, 0, 3, 1},
		"a body, of which nothing is left to read": {queue, many, []gate.Option{ofBody, longDelay},
			[]requests{{3, token("bad"), 401, ""}, {2, body("1"), 429, "600"}}, banTime, 0, 3, 0},
		"the cost of a body": {window, many, []gate.Option{ofBody},
			[]requests{{1, body("2"), 200, ""}, {2, body("2"), 429, "600"}}, banTime, 0, 2, 1},
		"the cost of a body is never admitted": {window, many, []gate.Option{ofBody}, []requests{{1, body("4"), 429, ""}, {1, body("2"), 200, ""}}, 0, 0, 2, 1},
		"a cost of zero": {window, many, []gate.Option{costs(0)},
			[]requests{{3, token("bad"), 401, ""}, {1, token("ann"), 429, "600"}}, banTime, 0, 3, 0},
		"refunded": {window, user, []gate.Option{refundAll}, []requests{{9, token("ann"), 200, ""}}, 0, 0, 0, 9},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := addressFirst(c.address, c.user, setup{Opts: c.opts})
				for step, r := range c.requests {
					for n := range r.n {
						got := record(t, g, r.req())
						if got.Status != r.status || n == r.n-1 && got.Header.Get("Retry-After") != r.retryAfter {
							t.Errorf("step %d, request %d: got %d, Retry-After %q, want %d, %q", step, n, got.Status, got.Header.Get("Retry-After"), r.status, r.retryAfter)
						}
					}
				}
				g.CheckRan(t, c.ran)
				a, u := testkit.Peek(t, g.Limiter, "192.0.2.1").State(0), testkit.Peek(t, g.user, "user:ann").State(0)
				if a.Ban != c.address1 || u.Ban != c.ann1 {
					t.Errorf("the bans of the address and of ann are %v and %v, want %v and %v", a.Ban, u.Ban, c.address1, c.ann1)
				}
				if c.address1 == 0 {
					g.CheckTaken(t, "192.0.2.1", c.taken)
					return
				}
				time.Sleep(banTime - time.Second) // longer than the limit denies
				for range 2 {
					if got := record(t, g, with("Token", "bob")); got.Status != 429 || got.Header.Get("Retry-After") != "1" {
						t.Errorf("before the end: got %d, Retry-After %q", got.Status, got.Header.Get("Retry-After"))
					}
				}
				time.Sleep(time.Second)
				if got := record(t, g, body("1")()); got.Status != 200 {
					t.Errorf("after the end: got %d, Retry-After %q", got.Status, got.Header.Get("Retry-After"))
				}
			})
		})
	}
}

// A check bans the key that it denies, unless its cost is zero.
func TestBan_check(t *testing.T) {
	for name, c := range map[string]struct {
		opts       []gate.Option
		ban        time.Duration
		retryAfter string
	}{
		"default":        {nil, banTime, "600"},
		"a larger cost":  {[]gate.Option{costs(2)}, banTime, "600"},
		"too large":      {[]gate.Option{costs(3)}, 0, ""},
		"a cost of zero": {[]gate.Option{costs(0)}, 0, "60"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := testkit.Limiter(t, memory(), core.SlidingLog("name", core.PerMinute(2)).BlockFor(banTime))
				testkit.Admit(t, l, "ann", 2)
				h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if nethttplimit.Check(w, r, l, "ann", c.opts...) {
						t.Error("the check admits the request")
					}
				})
				if got := record(t, h, request("GET", "/")); got.Status != 429 || got.Header.Get("Retry-After") != c.retryAfter {
					t.Errorf("got %d, Retry-After %q, want 429, %q", got.Status, got.Header.Get("Retry-After"), c.retryAfter)
				}
				d, err := l.Peek(context.Background(), "ann")
				if testkit.Must(t, err); d.State(0).Ban != c.ban {
					t.Errorf("got %+v, want the ban %v", d, c.ban)
				}
			})
		})
	}
}
