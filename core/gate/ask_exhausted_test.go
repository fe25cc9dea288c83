package gate_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

// Requests with good tokens from an address that is in the list of exhausted keys.
func TestAnd_ExhaustedAddress(t *testing.T) {
	bucket := core.TokenBucket("address", core.PerMinute(20)) // one in 3 s
	five := core.TokenBucket("user", core.PerDay(5))
	queue := core.LeakyBucket("user", core.PerSecond(1).WithBurst(5))
	for _, c := range []struct {
		name     string
		user     core.Rule
		opts     []gate.Option
		settle   int    // the cost that the handler settles, unless negative
		token    string // the limit of ann is used up
		status   int
		calls    int // of the Store
		limit    string
		address  int // taken in the end, of 15 before
		user1    int // taken of the user in the end
		verified int64
	}{
		{"admitted", many, nil, -1, "bob", 200, 3, `"address";r=4;t=12, "user";r=999999;t=3600`, 16, 1, 1},
		{"denied", five, nil, -1, "ann", 429, 3, `"address";r=5;t=15, "user";r=0;t=17280`, 15, 5, 1},
		{"Cost", five, []gate.Option{costs(2)}, -1, "bob", 200, 3, `"address";r=3;t=9, "user";r=3;t=51840`, 17, 2, 1},
		{"Cost, denied", five, []gate.Option{costs(2)}, -1, "ann", 429, 3, `"address";r=5;t=15, "user";r=0;t=34560`, 15, 5, 1},
		{"Cost, denied early", five, []gate.Option{costs(6)}, -1, "bob", 429, 1, `"address";r=5;t=3`, 15, 0, 0},
		{"a cost of zero", five, []gate.Option{costs(0)}, -1, "bob", 200, 3, `"address";r=5;t=15, "user";r=5;t=86400`, 15, 0, 1},
		{"a cost of zero, settled", five, []gate.Option{costs(0)}, 3, "bob", 200, 4, `"address";r=5;t=15, "user";r=5;t=86400`, 18, 3, 1},
		{"a cost of zero, denied", five, []gate.Option{costs(0)}, -1, "ann", 429, 3, `"address";r=5;t=15, "user";r=0;t=17280`, 15, 5, 1},
		{"settled", five, nil, 4, "bob", 200, 4, `"address";r=4;t=12, "user";r=4;t=69120`, 19, 4, 1},
		{"settled to less", five, []gate.Option{costs(3)}, 1, "bob", 200, 4, `"address";r=2;t=6, "user";r=2;t=34560`, 16, 1, 1},
		{"RefundIf", five, []gate.Option{refundAll}, -1, "bob", 200, 4,
			`"address";r=4;t=12, "user";r=4;t=69120`, 15, 0, 1},
		{"leaky bucket, denied", queue, []gate.Option{gate.MaxDelay(time.Second)}, -1, "ann", 429, 3, `"address";r=5;t=15, "user";r=0;t=4`, 15, 5, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handler := says("ok\n")
				if c.settle >= 0 {
					handler = settles(t, c.settle)
				}
				g := addressFirst(bucket, c.user, setup{Opts: c.opts, Handler: handler})
				testkit.Admit(t, g.Limiter, "192.0.2.1", 20)
				record(t, g, with("Token", "bad")) // adds the address to the exhausted keys
				time.Sleep(15 * time.Second)
				testkit.Admit(t, g.user, "user:ann", 5)
				calls, verified := g.Store.Calls(), g.verifier.verified.Load()
				got := record(t, g, with("Token", c.token))
				if got.Status != c.status || got.Header.Get("RateLimit") != c.limit {
					t.Errorf("the answer is %d, RateLimit %s\n\twant %d, %s", got.Status, got.Header.Get("RateLimit"), c.status, c.limit)
				}
				if d, ok := g.Saw(); c.status == 200 && (!ok || d.Len() != 2 || d.State(0).Rule.Name() != "address" || d.State(1).Rule.Name() != "user") {
					t.Errorf("the handler sees %+v, %v; want the States of the address and of the user", d, ok)
				}
				if n := g.Store.Calls() - calls; n != c.calls {
					t.Errorf("the Store is called %d times, want %d", n, c.calls)
				}
				if n := g.verifier.verified.Load() - verified; n != c.verified {
					t.Errorf("%d tokens are verified, want %d", n, c.verified)
				}
				g.CheckTaken(t, "192.0.2.1", c.address)
				if u := taken(t, g.user, "user:"+c.token); u != c.user1 {
					t.Errorf("%d are taken of the user, want %d", u, c.user1)
				}
			})
		})
	}
	t.Run("refund fails", func(t *testing.T) {
		store := onUndo(func(context.Context) error { return errSecret })
		user := core.Must(core.New(store, hundred))
		opts := []gate.Option{gate.And(user, constant("u")), quiet}
		a := start(setup{Store: store, Rules: []core.Rule{twenty}, Key: constant("key-of-a-person"), Opts: opts})
		testkit.Admit(t, a.Limiter, "key-of-a-person", 20)
		testkit.Admit(t, user, "u", 100)
		a.Gets(t, 429) // adds the address to the exhausted keys
		reset(t, a.Limiter, "key-of-a-person")
		lines := logged(t, func() { a.Gets(t, 429) })
		checkLines(t, lines, 1, "weir: the cost of a request could not be refunded")
		a.CheckTaken(t, "key-of-a-person", 1)
	})
	t.Run("at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := addressFirst(bucket, five, setup{})
			crowd(t, g, "bad", 1)
			for range 10 {
				time.Sleep(9 * time.Second) // three tokens, and others that are refunded
				crowd(t, g, "ann", 2)
			}
			if a, u := taken(t, g.Limiter, "192.0.2.1"), taken(t, g.user, "user:ann"); g.Ran() != 5 || u != 5 || a > 5 {
				t.Errorf("%d are admitted, %d are taken of the user and %d of the address; want 5, 5 and no more than 5", g.Ran(), u, a)
			}
		})
	})
	t.Run("denied for long", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := addressFirst(core.TokenBucket("second", core.PerSecond(1)), many, setup{Opts: []gate.Option{costs(2)}})
			for range 20 {
				record(t, g, with("Token", "bad"))
				time.Sleep(5 * time.Second)
			}
			if got := g.verifier.verified.Load(); got != 1 {
				t.Errorf("%d tokens are verified, want 1: a denial keeps the key exhausted", got)
			}
		})
	})
	for name, address := range map[string]core.Rule{
		"shadow": core.SlidingLog("shadow", core.PerHour(20)).Shadow(), "forgotten": bucket,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := addressFirst(address, many, setup{})
				crowd(t, g, "bad", 1)
				if name == "forgotten" { // a shadow denies nothing at once
					time.Sleep(time.Minute + 2*time.Second)
				}
				calls := g.Store.Calls()
				if got := record(t, g, with("Token", "bob")); got.Status != 200 || g.Store.Calls() != calls+1 {
					t.Errorf("status %d and %d calls of the Store, want 200 and one", got.Status, g.Store.Calls()-calls)
				}
			})
		})
	}
}

// If the second of two exhausted keys denies a request, the charge of the first is refunded.
func TestAnd_TwoExhaustedKeys(t *testing.T) {
	store, v := memory(), new(verifier)
	b, u := core.Must(core.New(store, hundred)), core.Must(core.New(store, many))
	a := start(setup{
		Store: store, Rules: []core.Rule{twenty}, Key: constant("a"), Opts: []gate.Option{gate.And(b, constant("b")), gate.And(u, v.key)},
	})
	testkit.Admit(t, a.Limiter, "a", 20)
	testkit.Admit(t, b, "b", 100)
	record(t, a, with("Token", "bad")) // adds the address to the exhausted keys
	reset(t, a.Limiter, "a")
	calls := store.Calls()
	got := record(t, a, with("Token", "bad"))
	if n := store.Calls() - calls; n != 3 {
		t.Errorf("the Store is called %d times, want 3", n)
	}
	if limit := got.Header.Get("RateLimit"); got.Status != 429 || limit != `"hundred";r=0;t=3600` {
		t.Errorf("%d, RateLimit %s; want 429, and the rule that denies", got.Status, limit)
	}
	if n := v.verified.Load(); n != 1 {
		t.Errorf("%d tokens are verified, want only the first", n)
	}
	a.CheckTaken(t, "a", 0)
}

// A key with a cost of zero is charged early while it is exhausted. Its refund must leave the other
// key of its limiter charged.
func TestAnd_ZeroBesideCost(t *testing.T) {
	store, v := memory(), new(verifier)
	l := core.Must(core.New(store, core.SlidingLog("api", core.PerHour(5))))
	for name, other := range map[string]*core.Limiter{"the limiter": l, "a view": l.Plan("pro")} {
		t.Run(name, func(t *testing.T) {
			a := start(setup{Limiter: l, Store: store, Key: keyfunc.RemoteIP(), Opts: []gate.Option{costs(0), gate.And(other, v.key, costs(2))}})
			for range 6 {
				record(t, a, with("Token", "bad"))
			}
			reset(t, l, "192.0.2.1")
			got := record(t, a, with("Token", name))
			if n := taken(t, l, "user:"+name); got.Status != 200 || n != 2 {
				t.Errorf("got %d with %d taken, want 200 with 2", got.Status, n)
			}
		})
	}
}
