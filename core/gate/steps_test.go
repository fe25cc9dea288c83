package gate

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

// A key that was charged early is found a second time, with another key after it.
func TestGate_Admit_MergedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		l := core.Must(core.New(store, core.TokenBucket("api", core.PerSecond(2))))
		all := core.Must(core.New(store, core.TokenBucket("all", core.PerSecond(1000))))
		g := newGate("test", l, anyKey, []Option{And(l, keyfunc.FirstOf(noToken, anyKey)), And(all, keyfunc.Constant("all"))})
		for i, want := range []int{0, 0, 429, 429} {
			r := get("/")
			if _, _, rejection := g.Admit(r.Context(), header(), r, ""); (rejection != nil) != (want == 429) {
				t.Errorf("request %d: got %v, want %d", i, rejection, want)
			}
		}
		time.Sleep(1100 * time.Millisecond)
		r := get("/")
		_, _, rejection := g.Admit(r.Context(), header(), r, "")
		if rejection != nil || testkit.Used(t, l, "k")[0] != 1 || testkit.Used(t, all, "constant:all")[0] != 1 {
			t.Errorf("got %v with %d and %d in use, want an admission and 1 and 1", rejection, testkit.Used(t, l, "k"), testkit.Used(t, all, "constant:all"))
		}
	})
}

func noToken(context.Context, *http.Request) (string, error) { return "", keyfunc.ErrNoToken }

// Concurrent requests of an exhausted key do not take places of a leaky bucket twice.
func TestGate_Admit_ExhaustedQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(storetest.Fake)
		queue := core.Must(core.New(store, core.LeakyBucket("queue", core.PerSecond(10).WithBurst(20))))
		all := core.Must(core.New(store, core.TokenBucket("all", core.PerSecond(1000))))
		g := newGate("test", queue, anyKey, []Option{And(all, keyfunc.Constant("all"))})
		burst := func(n int) (admitted int) {
			var mu sync.Mutex
			testkit.Concurrently(n, func(int) {
				r := get("/")
				_, _, rejection := g.Admit(r.Context(), header(), r, "")
				mu.Lock()
				defer mu.Unlock()
				if rejection == nil {
					admitted++
				}
			})
			return admitted
		}
		if n := burst(30); n != 20 {
			t.Errorf("%d of 30 are admitted, want 20", n)
		}
		time.Sleep(3 * time.Second)
		store.Set(storetest.Delay(time.Millisecond, 0))
		if n := burst(20); n != 20 {
			t.Errorf("while the key is exhausted, %d of 20 are admitted, want 20", n)
		}
	})
}

// If the Store fails at a second early charge, the first one is refunded.
func TestGate_Admit_SecondEarlyChargeFails(t *testing.T) {
	store := new(storetest.Fake)
	limiter := func(name string) *core.Limiter {
		return core.Must(core.New(store, core.SlidingLog(name, core.PerHour(2))))
	}
	a, b, c := limiter("a"), limiter("b"), limiter("c")
	g := newGate("test", a, anyKey, []Option{And(b, anyKey), And(c, anyKey), OnError(func(_ *http.Request, _ error, status int) int { return status })})
	for _, l := range []*core.Limiter{a, b} {
		g.exhausted.add(l, "k", time.Hour)
	}
	calls := store.Calls()
	store.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		if store.Calls() == calls+2 {
			return core.ErrUnavailable
		}
		return next(ctx, charges)
	})
	r := get("/")
	if _, _, rejection := g.Admit(r.Context(), header(), r, ""); rejection != nil {
		t.Fatal(rejection)
	}
	store.Set()
	for _, l := range []*core.Limiter{a, b, c} {
		if used := testkit.Used(t, l, "k")[0]; used != 0 {
			t.Errorf("%s: %d are in use, want 0", l.Rules()[0].Name(), used)
		}
	}
}

// A limiter with several keys has no Key, so that Reset cannot forget the wrong one.
func TestKey_Several(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.SlidingLog("login", core.PerHour(9))))
	user := func(context.Context, *http.Request) (string, error) { return "user", nil }
	r := get("/")
	r, _, _ = newGate("test", l, user, nil).Admit(r.Context(), header(), r, "")
	r, _, _ = newGate("test", l, anyKey, []Option{And(l, user)}).Admit(r.Context(), header(), r, "")
	if key, ok := Key(r.Context(), l); ok {
		t.Errorf("the key is %q, want none", key)
	}
	if err := Reset(r.Context(), l); err != ErrNotAdmitted || testkit.Used(t, l, "user")[0] != 2 {
		t.Errorf("Reset: %v, %d are in use, want %v and 2", err, testkit.Used(t, l, "user"), ErrNotAdmitted)
	}
}

// Reset forgets the charges of another limiter with the same rule and key, too, and those of a Settle at
// the same time.
func TestReset_Shared(t *testing.T) {
	store := new(storetest.Fake)
	rule := core.FixedWindow("login", core.PerDay(100))
	a, b := core.Must(core.New(store, rule)), core.Must(core.New(store, rule))
	r := get("/")
	r, _, _ = newGate("test", b, anyKey, nil).Admit(r.Context(), header(), r, "")
	outer := r
	r, _, _ = newGate("test", a, anyKey, nil).Admit(r.Context(), header(), r, "")
	store.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		store.Set()
		if err := Settle(r.Context(), 5); err != nil { // between the two halves of Reset
			t.Error(err)
		}
		return next(ctx, charges)
	})
	testkit.Must(t, Reset(r.Context(), a))
	testkit.Admit(t, a, "k", 3)
	for _, ctx := range []context.Context{r.Context(), outer.Context()} {
		if err := Refund(ctx); err != nil {
			t.Error(err)
		}
	}
	if used := testkit.Used(t, a, "k")[0]; used != 3 {
		t.Errorf("%d are in use, want 3", used)
	}
}

// The document of a denied check has the length of its own.
func TestCheck_FieldsOfAnotherBody(t *testing.T) {
	l := once()
	fields := func() http.Header {
		h := header()
		for _, name := range []string{"Content-Length", "Content-Encoding", "ETag", "Last-Modified"} {
			h.Set(name, "5")
		}
		return h
	}
	for i, want := range []int{4, 1} { // admitted, denied: Content-Encoding may be that of a middleware
		h, r := fields(), get("/")
		check("test", t.Context(), h, r, l, "k", []Option{Headers()})
		h.Del("Retry-After")
		h.Del("Cache-Control")
		if len(h) != want {
			t.Errorf("check %d: the header fields are %v, want %d", i, h, want)
		}
	}
	h := fields()
	deny("test", h, get("/"), core.Decision{})
	if h.Get("Content-Length") != "" {
		t.Errorf("Deny: the header fields are %v", h)
	}
}

func costs(n int) Option {
	return Cost(func(context.Context, *http.Request) int { return n })
}

// A limiter that two keys share, which are equal, is charged the larger cost, also when a denial has
// made the key exhausted, so that the first ask is charged before the second is known.
func TestGate_Admit_OneKeyTwoCosts(t *testing.T) {
	for name, c := range map[string]struct{ first, second int }{"larger second": {1, 3}, "larger first": {3, 1}, "first is a peek": {0, 3}, "second is a peek": {3, 0}} {
		t.Run(name, func(t *testing.T) {
			l := core.Must(core.New(memstore.New(), core.SlidingLog("r", core.PerHour(10))))
			g := newGate("test", l, anyKey, []Option{costs(c.first), And(l, anyKey, costs(c.second))})
			for i := range 8 {
				r := get("/")
				_, _, rejection := g.Admit(r.Context(), header(), r, "")
				if admitted, want := rejection == nil, i < 3; admitted != want {
					t.Errorf("request %d: admitted %v, want %v", i, admitted, want)
				}
				if used, want := testkit.Used(t, l, "k")[0], 3*min(i+1, 3); used != want {
					t.Errorf("request %d: got %d used, want %d", i, used, want)
				}
			}
		})
	}
}

// An admitted request whose first cost is raised is charged once.
func TestGate_Admit_RaisedCost(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.SlidingLog("r", core.PerHour(10))))
	cost := 9
	g := newGate("test", l, anyKey, []Option{And(l, anyKey, Cost(func(context.Context, *http.Request) int { return cost }))})
	for i, c := range []struct{ cost, used int }{{9, 9}, {2, 9}, {1, 10}, {1, 10}} {
		cost = c.cost
		r := get("/")
		g.Admit(r.Context(), header(), r, "")
		if used := testkit.Used(t, l, "k")[0]; used != c.used {
			t.Errorf("request %d: got %d used, want %d", i, used, c.used)
		}
	}
	if _, err := l.Reset(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	cost = 3 // the key is still exhausted, so the first ask is charged early
	r := get("/")
	_, _, rejection := g.Admit(r.Context(), header(), r, "")
	if used := testkit.Used(t, l, "k")[0]; rejection != nil || used != 3 {
		t.Errorf("got %v, %d used, want 3", rejection, used)
	}
}
