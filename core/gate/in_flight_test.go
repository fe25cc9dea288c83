package gate_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/nethttplimit"
)

func exports(n int) core.Rule { return core.InFlight("exports", n).Hold(10 * time.Second) }

// eachStore runs f in a bubble of synctest for a memory store, whose places are freed before the gate has
// returned, and for a store whose places have holds and are freed in another goroutine.
func eachStore(t *testing.T, f func(t *testing.T, s core.Store)) {
	t.Run("local", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, memstore.New()) }) })
	t.Run("remote", func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, memory()) }) })
}

// checkUsed compares how much of each rule of l is in use by key.
func checkUsed(t *testing.T, l *core.Limiter, key string, want ...int) {
	t.Helper()
	if got := testkit.Used(t, l, key); !slices.Equal(got, want) {
		t.Errorf("%v of the rules are in use by %q, want %v", got, key, want)
	}
}

// A visit is a request whose handler runs until leave is closed.
type visit struct {
	status int // after done
	leave  chan struct{}
	done   chan struct{}
}

// visit sends a request to h, whose handler must wait for the channel that leaving returns.
func enter(h http.Handler, ctx context.Context) *visit {
	v := &visit{leave: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(v.done)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request("GET", "/").WithContext(context.WithValue(ctx, leaveKey{}, v.leave)))
		v.status = w.Code
	}()
	synctest.Wait()
	return v
}

type leaveKey struct{}

// waits is a handler that waits for the visit to be left.
func waits(_ http.ResponseWriter, r *http.Request) {
	if leave, ok := r.Context().Value(leaveKey{}).(chan struct{}); ok {
		<-leave
	}
}

// end ends the handler, and waits for the end of all calls.
func (v *visit) end(t *testing.T, want int) {
	t.Helper()
	close(v.leave)
	<-v.done
	synctest.Wait()
	if v.status != want {
		t.Errorf("the status is %d, want %d", v.status, want)
	}
}

// A place is taken while the handler runs, however long, also after the request has ended.
func TestInFlight(t *testing.T) {
	contexts := map[string]func() (context.Context, context.CancelFunc){
		"no end": func() (context.Context, context.CancelFunc) { return context.Background(), func() {} },
		"cancel": func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) },
		"deadline": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), time.Second)
		},
	}
	for name, ctx := range contexts {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, s core.Store) {
				a := start(setup{Limiter: testkit.Limiter(t, s, exports(2)), Handler: waits})
				ctx, cancel := ctx()
				defer cancel()
				first, second := enter(a, ctx), enter(a, ctx)
				a.Gets(t, 429)
				cancel()
				time.Sleep(time.Minute)
				a.Gets(t, 429)
				checkUsed(t, a.Limiter, "k", 2)
				first.end(t, 200)
				checkUsed(t, a.Limiter, "k", 1)
				third := enter(a, context.Background())
				a.Gets(t, 429)
				second.end(t, 200)
				third.end(t, 200)
				checkUsed(t, a.Limiter, "k", 0)
			})
		})
	}
}

// A request that takes several places frees all: of several keys, of several gates, and also if an inner
// gate denies it. A limiter and key that is found twice takes one place.
func TestInFlight_Several(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		api := testkit.Limiter(t, s, hundred)
		perUser, all, inner := testkit.Limiter(t, s, exports(2)), testkit.Limiter(t, s, core.InFlight("all", 2), core.SlidingLog("log", core.PerHour(9))), testkit.Limiter(t, s, core.InFlight("inner", 1))
		h := build(inner, constant("i"), nil, waits)
		h = build(api, constant("a"), []gate.Option{
			gate.And(perUser, constant("u")), gate.And(all, constant("all")), gate.And(perUser, constant("u")),
		}, h.ServeHTTP)
		v := enter(h, t.Context())
		check := func(want int, log, requests int) {
			t.Helper()
			checkUsed(t, api, "a", requests)
			checkUsed(t, perUser, "u", want)
			checkUsed(t, all, "all", want, log)
			checkUsed(t, inner, "i", want)
		}
		check(1, 1, 1)
		if got := record(t, h, request("GET", "/")); got.Status != 429 {
			t.Errorf("the status is %d, want 429 of the inner gate", got.Status)
		}
		synctest.Wait()
		check(1, 2, 2)
		v.end(t, 200)
		check(0, 2, 2)
	})
}

// The cost of a request, its changes and refunds do not change its place.
func TestInFlight_Cost(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, exports(3), hundred)
		a := start(setup{Limiter: l, Opts: []gate.Option{costs(7), succeeded}, Handler: func(w http.ResponseWriter, r *http.Request) {
			checkUsed(t, l, "k", 1, 7)
			for _, c := range []struct {
				change func() error
				want   int
			}{
				{func() error { return gate.Settle(r.Context(), 9) }, 9},
				{func() error { return gate.SettleFor(r.Context(), l, 2) }, 2},
				{func() error { return gate.Refund(r.Context()) }, 0},
				{func() error { return gate.SettleFor(r.Context(), l, 0) }, 0},
				{func() error { return gate.Settle(r.Context(), 5) }, 5},
			} {
				if err := c.change(); err != nil {
					t.Error(err)
				}
				checkUsed(t, l, "k", 1, c.want)
			}
			answers(200)(w, r)
		}})
		a.Gets(t, 200)
		synctest.Wait()
		checkUsed(t, l, "k", 0, 0)
	})
}

// By cost, a request takes as many places as it costs, until its handler has returned. Changes of the cost, and
// refunds, change no places.
func TestInFlight_ByCost(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, exports(12).ByCost(), hundred)
		cost := 5
		a := start(setup{Limiter: l, Handler: waits, Opts: []gate.Option{gate.Cost(func(context.Context, *http.Request) int { return cost })}})
		first, second := enter(a, t.Context()), enter(a, t.Context())
		checkUsed(t, l, "k", 10, 10)
		a.Gets(t, 429) // needs 5 of 2
		cost = 2
		third := enter(a, t.Context())
		cost = 0
		a.Gets(t, 429)
		checkUsed(t, l, "k", 12, 12)
		time.Sleep(time.Minute)
		second.end(t, 200)
		checkUsed(t, l, "k", 7, 12)
		a.Gets(t, 200)
		cost = 5
		fourth := enter(a, t.Context())
		checkUsed(t, l, "k", 12, 17)
		cost = 13
		if got := a.Get(t); got.Status != 429 || got.Header.Get("Retry-After") != "" || !strings.Contains(got.Body, "costs more than the policy ever allows") {
			t.Errorf("a cost of 13: got %d, %v, %s", got.Status, got.Header, got.Body)
		}
		for _, v := range []*visit{first, third, fourth} {
			v.end(t, 200)
		}
		checkUsed(t, l, "k", 0, 17)
	})
}

func TestInFlight_ByCostSettled(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, exports(10).ByCost(), hundred)
		a := start(setup{Limiter: l, Opts: []gate.Option{costs(7), succeeded}, Handler: func(w http.ResponseWriter, r *http.Request) {
			checkUsed(t, l, "k", 7, 7)
			for _, c := range []struct {
				change func() error
				want   int
			}{
				{func() error { return gate.Settle(r.Context(), 90) }, 90},
				{func() error { return gate.SettleFor(r.Context(), l, 2) }, 2},
				{func() error { return gate.Refund(r.Context()) }, 0},
				{func() error { return gate.SettleFor(r.Context(), l, 0) }, 0},
				{func() error { return gate.Settle(r.Context(), 5) }, 5},
			} {
				if err := c.change(); err != nil {
					t.Error(err)
				}
				checkUsed(t, l, "k", 7, c.want)
			}
			answers(200)(w, r)
		}})
		a.Gets(t, 200)
		synctest.Wait()
		checkUsed(t, l, "k", 0, 0)
	})
}

// A request of cost 0 takes no place, but needs a free one.
func TestInFlight_CostOfZero(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, exports(1))
		a := start(setup{Limiter: l, Opts: []gate.Option{costs(0)}, Handler: func(http.ResponseWriter, *http.Request) { checkUsed(t, l, "k", 0) }})
		a.Gets(t, 200)
		r := testkit.Reserve(t, l, "k", 1)
		a.Gets(t, 429)
		testkit.Must(t, r.Release(t.Context()))
	})
}

// RefundIf refunds the rates only, and is done before the place is free.
func TestInFlight_RefundIf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []driver.Charge
		s := memory().Set(recording(&asked))
		a := start(setup{Store: s, Rules: []core.Rule{exports(1), hundred}, Refund: true})
		a.Gets(t, 200)
		synctest.Wait()
		var undone []string
		for _, c := range asked {
			if c.Op == driver.Undo {
				undone = append(undone, c.Rule.Name)
			}
		}
		if !slices.Equal(undone, []string{"hundred", "exports"}) {
			t.Errorf("the charges of %v are undone, want hundred and then exports", undone)
		}
	})
}

// After a Reset, the request that runs has no place, and its end frees none.
func TestInFlight_Reset(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, exports(1))
		a := start(setup{Limiter: l, Handler: func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "DELETE" {
				testkit.Must(t, gate.Reset(r.Context(), l))
				checkUsed(t, l, "k", 0)
			}
			waits(w, r)
		}})
		leave, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			record(t, a, request("DELETE", "/").WithContext(context.WithValue(t.Context(), leaveKey{}, leave)))
		}()
		synctest.Wait()
		next := enter(a, t.Context())
		checkUsed(t, l, "k", 1)
		time.Sleep(time.Minute)
		close(leave)
		<-done
		synctest.Wait()
		checkUsed(t, l, "k", 1)
		a.Gets(t, 429)
		next.end(t, 200)
		checkUsed(t, l, "k", 0)
	})
}

// If the store cannot free a place, the response is the same, the error is logged at most once a second, and
// the place lapses.
func TestInFlight_StoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(setup{Store: onUndo(func(context.Context) error { return errSecret }), Rules: []core.Rule{exports(100)}, Key: constant("key-of-a-person")})
		lines := logged(t, func() {
			everySecond(3, 5, func() {
				if got := record(t, a, request("GET", "/?token=secret")); got.Status != 200 || got.Body != "ok\n" {
					t.Errorf("the answer is %d %q, want 200 ok", got.Status, got.Body)
				}
			})
		})
		checkLines(t, lines, 3, "weir: the place of a request could not be freed, and lapses")
		a.CheckTaken(t, "key-of-a-person", 15)
		time.Sleep(10 * time.Second)
		a.CheckTaken(t, "key-of-a-person", 0)
	})
}

// A response does not wait for the store that frees its place, not even if the client is gone.
func TestInFlight_SlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		store := onUndo(func(release context.Context) error {
			cancel()
			time.Sleep(5 * time.Second)
			return release.Err()
		})
		a := start(setup{Store: store, Rules: []core.Rule{exports(1)}})
		begun := time.Now()
		record(t, a, request("GET", "/").WithContext(ctx))
		if d := time.Since(begun); d > 0 {
			t.Errorf("the response took %v, want 0", d)
		}
		a.CheckTaken(t, "k", 1)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		a.CheckTaken(t, "k", 0)
	})
}

// A handler that runs on after the timeout of a TimeoutHandler has its place until it returns, if the gate is
// inside, and none if the gate is around the TimeoutHandler, which has then returned.
func TestInFlight_TimeoutHandler(t *testing.T) {
	for name, c := range map[string]struct {
		build func(l *core.Limiter, h http.HandlerFunc) http.Handler
		taken int // after the timeout
	}{
		"inside": {func(l *core.Limiter, h http.HandlerFunc) http.Handler {
			return http.TimeoutHandler(build(l, constant("k"), nil, h), time.Second, "late")
		}, 1},
		"around": {func(l *core.Limiter, h http.HandlerFunc) http.Handler {
			return build(l, constant("k"), nil, http.TimeoutHandler(h, time.Second, "late").ServeHTTP)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			eachStore(t, func(t *testing.T, s core.Store) {
				l := testkit.Limiter(t, s, exports(1))
				w := httptest.NewRecorder()
				c.build(l, func(http.ResponseWriter, *http.Request) { time.Sleep(time.Minute) }).ServeHTTP(w, request("GET", "/"))
				synctest.Wait()
				if w.Code != 503 {
					t.Errorf("the status is %d, want 503", w.Code)
				}
				checkUsed(t, l, "k", c.taken)
				time.Sleep(2 * time.Minute)
				checkUsed(t, l, "k", 0)
			})
		})
	}
}

// The plan of the caller decides about places, too.
func TestInFlight_Plan(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, exports(1).Plan("pro", core.Limit{Events: 2}).Plan("free", core.Blocked).Plan("staff", core.Unlimited))
		plan := gate.Plan(func(_ context.Context, r *http.Request) (string, error) { return r.Header.Get("Plan"), nil })
		var inside func()
		h := build(l, constant("k"), []gate.Option{plan}, func(w http.ResponseWriter, r *http.Request) { inside() })
		for _, c := range []struct {
			plan         string
			before, used int // places of the key
			status       int
			policy, left string
		}{
			{"", 0, 1, 200, `"exports";q=1;qu="concurrent-requests"`, `"exports";r=0`},
			{"", 1, 1, 429, `"exports";q=1;qu="concurrent-requests"`, `"exports";r=0`},
			{"pro", 1, 2, 200, `"exports";q=2;qu="concurrent-requests"`, `"exports";r=0`},
			{"free", 0, 0, 429, `"exports";q=0`, `"exports";r=0`},
			{"staff", 1, 1, 200, "", ""},
		} {
			var others []*core.Reservation
			for range c.before {
				others = append(others, testkit.Reserve(t, l, "k", 1))
			}
			inside = func() { checkUsed(t, l.Plan("pro"), "k", c.used) }
			got := record(t, h, with("Plan", c.plan))
			if got.Status != c.status || got.Header.Get("RateLimit-Policy") != c.policy || got.Header.Get("RateLimit") != c.left || got.Header.Get("Retry-After") != "" {
				t.Errorf("plan %q beside %d: %d, %v, want %d, %s and %s", c.plan, c.before, got.Status, got.Header, c.status, c.policy, c.left)
			}
			for _, r := range others {
				testkit.Must(t, r.Release(t.Context()))
			}
			synctest.Wait()
			checkUsed(t, l, "k", 0)
		}
	})
}

// Every route can have places of its own.
func TestInFlight_Routes(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		export, api := testkit.Limiter(t, s, exports(1)), testkit.Limiter(t, s, core.InFlight("api", 3))
		routes := gate.Routes(apptest.PolicyFunc(func(r *http.Request) *core.Limiter {
			if r.URL.Path == "/export" {
				return export
			}
			return nil
		}))
		h := build(api, constant("k"), []gate.Option{routes}, waits)
		v := enter(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { r.URL.Path = "/export"; h.ServeHTTP(w, r) }), t.Context())
		for path, want := range map[string]int{"/export": 429, "/": 200, "/a%2F..%2Fb": 400} {
			if got := record(t, h, request("GET", path)); got.Status != want {
				t.Errorf("%s: the status is %d, want %d", path, got.Status, want)
			}
		}
		synctest.Wait()
		checkUsed(t, export, "k", 1)
		checkUsed(t, api, "k", 0)
		v.end(t, 200)
		checkUsed(t, export, "k", 0)
	})
}

// A shadow takes a place if one is free, and denies nothing.
func TestInFlight_Shadow(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, exports(1).Shadow())
		a := start(setup{Limiter: l, Handler: waits})
		first, second := enter(a, t.Context()), enter(a, t.Context())
		checkUsed(t, l, "k", 1)
		second.end(t, 200)
		checkUsed(t, l, "k", 1)
		first.end(t, 200)
		checkUsed(t, l, "k", 0)
	})
}

// Check cannot free a place, so its use is a fault of the application, even if OnError lets the request
// through. A denial and a cost of zero need no place.
func TestCheck_InFlight(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, exports(1))
		var failed error
		check := func(opts ...gate.Option) (status int) {
			failed = nil
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if nethttplimit.Check(w, r, l, "ann", opts...) {
					says("ok\n")(w, r)
				}
			})
			status = record(t, h, request("GET", "/v1/orders")).Status
			synctest.Wait()
			return status
		}
		keep := gate.OnError(func(_ *http.Request, err error, status int) int { failed = err; return status })
		if status := check(keep); status != 500 || !errors.Is(failed, core.ErrInvalidAsk) || !strings.Contains(failed.Error(), "call Reserve and Release") {
			t.Errorf("the status is %d after %v, want 500 after an ErrInvalidAsk that says what to call", status, failed)
		}
		checkUsed(t, l, "ann", 0)
		for name, opt := range map[string]gate.Option{"let through": letThrough, "a cost of zero": costs(0)} {
			if status := check(opt); status != 200 {
				t.Errorf("%s: the status is %d, want 200", name, status)
			}
			checkUsed(t, l, "ann", 0)
		}
		place := testkit.Reserve(t, l, "ann", 1)
		if status := check(); status != 429 {
			t.Errorf("beside another place: the status is %d, want 429", status)
		}
		testkit.Must(t, place.Release(t.Context()))
		checkUsed(t, l, "ann", 0)
	})
}

// A handler that finds the key itself reserves a place, and responds to a denial as the middleware does.
func TestDeny_InFlight(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, exports(1))
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			place, err := l.Reserve(r.Context(), "ann", 1)
			if err != nil {
				nethttplimit.Deny(w, r, core.Decision{})
				return
			}
			defer func() { _ = place.Release(context.WithoutCancel(r.Context())) }()
			if d := place.Decision(); !d.Allowed {
				nethttplimit.Deny(w, r, d)
				return
			}
			waits(w, r)
		})
		v := enter(h, t.Context())
		got := record(t, h, request("GET", "/v1/orders"))
		want := document(`Policy \"exports\" allows 1 request at a time.`, `"exports"`)
		if got.Status != 429 || got.Body != want || got.Header.Get("Retry-After") != "" || got.Header.Get("RateLimit") != `"exports";r=0` {
			t.Errorf("got %d %v %s\n\twant 429 %s", got.Status, got.Header, got.Body, want)
		}
		v.end(t, 200)
		checkUsed(t, l, "ann", 0)
	})
}
