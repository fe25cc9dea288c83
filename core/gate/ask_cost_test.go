package gate_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/internal/testkit"
)

// costHeader returns a Cost that takes the cost from a header field.
func costHeader(name string) gate.Option {
	return gate.Cost(func(_ context.Context, r *http.Request) int {
		n, err := strconv.Atoi(r.Header.Get(name))
		if err != nil {
			return -1
		}
		return n
	})
}

// TestAnd_SeveralCosts tests a gate that counts requests and tokens.
func TestAnd_SeveralCosts(t *testing.T) {
	type pair struct{ requests, tokens int }
	proxy := func(handler func(w http.ResponseWriter, r *http.Request, requests, tokens *core.Limiter), opts ...gate.Option) (http.Handler, func(t *testing.T, want pair)) {
		store := memory()
		requests := core.Must(core.New(store, core.SlidingLog("requests", core.PerMinute(3))))
		tokens := core.Must(core.New(store, core.TokenBucket("tokens", core.PerDay(1000)).Plan("pro", core.PerDay(2000))))
		opts = append(opts, gate.And(tokens, constant("k"), costHeader("X-Tokens")), quiet)
		h := build(requests, constant("k"), opts, func(w http.ResponseWriter, r *http.Request) { handler(w, r, requests, tokens) })
		return h, func(t *testing.T, want pair) {
			t.Helper()
			if got := (pair{taken(t, requests, "k"), taken(t, tokens, "k")}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
	}
	ask := func(tokens string) *http.Request { return with("X-Tokens", tokens) }
	t.Run("settle", func(t *testing.T) {
		var check func(*testing.T, pair)
		foreign := start(setup{}).Limiter
		h, check := proxy(func(_ http.ResponseWriter, r *http.Request, requests, tokens *core.Limiter) {
			check(t, pair{1, 400})
			for i, c := range []struct {
				limiter *core.Limiter // nil: Settle
				cost    int
				err     error
				want    pair
			}{
				{tokens, 150, nil, pair{1, 150}},
				{tokens.Plan("pro"), 700, nil, pair{1, 700}},
				{tokens, -1, core.ErrNegativeCost, pair{1, 700}},
				{requests, 2, nil, pair{2, 700}},
				{nil, 5, gate.ErrSeveralCosts, pair{2, 700}},
				{foreign, 5, gate.ErrNotAdmitted, pair{2, 700}},
				{nil, -1, core.ErrNegativeCost, pair{2, 700}},
				{nil, 0, nil, pair{0, 0}},
				{tokens, 20, nil, pair{0, 20}},
			} {
				var got error
				if c.limiter == nil {
					got = gate.Settle(r.Context(), c.cost)
				} else {
					got = gate.SettleFor(r.Context(), c.limiter, c.cost)
				}
				if !errors.Is(got, c.err) {
					t.Errorf("call %d: got %v, want %v", i, got, c.err)
				}
				check(t, c.want)
			}
			if err := gate.SettleFor(r.Context(), nil, 1); !errors.Is(err, gate.ErrNotAdmitted) {
				t.Errorf("without a limiter: got %v, want ErrNotAdmitted", err)
			}
		})
		if got := record(t, h, ask("400")); got.Status != 200 {
			t.Errorf("got status %d", got.Status)
		}
	})
	t.Run("one decision", func(t *testing.T) {
		h, check := proxy(func(http.ResponseWriter, *http.Request, *core.Limiter, *core.Limiter) {})
		for i, c := range []struct {
			tokens string
			status int
			want   pair
		}{
			{"900", 200, pair{1, 900}}, {"200", 429, pair{1, 900}}, {"2000", 429, pair{1, 900}}, {"-5", 500, pair{1, 900}},
			{"0", 200, pair{2, 900}}, {"100", 200, pair{3, 1000}}, {"0", 429, pair{3, 1000}},
		} {
			if got := record(t, h, ask(c.tokens)); got.Status != c.status {
				t.Errorf("request %d: got status %d, want %d", i, got.Status, c.status)
			}
			check(t, c.want)
		}
	})
	t.Run("refund", func(t *testing.T) {
		h, check := proxy(func(w http.ResponseWriter, _ *http.Request, _, _ *core.Limiter) { w.WriteHeader(200) }, refundAll)
		record(t, h, ask("400"))
		check(t, pair{0, 0})
	})
	t.Run("outer gate", func(t *testing.T) {
		inner := start(setup{})
		var tokens *core.Limiter
		inner.Handler = build(inner.Limiter, constant("k"), nil, func(_ http.ResponseWriter, r *http.Request) {
			if err := gate.SettleFor(r.Context(), tokens, 30); err != nil {
				t.Error(err)
			}
		})
		h, check := proxy(func(w http.ResponseWriter, r *http.Request, _, l *core.Limiter) {
			tokens = l
			inner.ServeHTTP(w, r)
		})
		record(t, h, ask("400"))
		check(t, pair{1, 30})
		inner.CheckTaken(t, "k", 1)
	})
	t.Run("of an exhausted key", func(t *testing.T) { // it is charged early, at least 1
		store := memory()
		first := core.Must(core.New(store, core.SlidingLog("first", core.PerMinute(2))))
		last := core.Must(core.New(store, core.SlidingLog("last", core.PerMinute(100))))
		h := build(first, constant("k"), []gate.Option{costHeader("X-First"), gate.And(last, header("X-Key"), costs(10)), quiet}, says("ok"))
		for i, c := range []struct {
			first, key  string
			status      int
			taken, rest int
		}{
			{"1", "", 400, 1, 0}, {"1", "", 400, 2, 0}, {"1", "a", 429, 2, 0},
		} {
			if got := record(t, h, with("X-First", c.first, "X-Key", c.key)); got.Status != c.status || taken(t, first, "k") != c.taken || taken(t, last, "a") != c.rest {
				t.Errorf("request %d: got status %d, counts %d and %d, want %+v", i, got.Status, taken(t, first, "k"), taken(t, last, "a"), c)
			}
		}
		reset(t, first, "k")
		if got := record(t, h, with("X-First", "0", "X-Key", "a")); got.Status != 200 || taken(t, first, "k") != 0 || taken(t, last, "a") != 10 {
			t.Errorf("a cost of zero: got status %d, counts %d and %d, want 200, 0 and 10", got.Status, taken(t, first, "k"), taken(t, last, "a"))
		}
	})
	t.Run("of an exhausted key, twice", func(t *testing.T) { // the larger cost counts
		l := core.Must(core.New(memory(), core.SlidingLog("r", core.PerMinute(9))))
		h := build(l, constant("k"), []gate.Option{costHeader("X-First"), gate.And(l, header("X-Key"), costs(7)), quiet}, says("ok"))
		record(t, h, with("X-First", "9")) // exhausts k
		reset(t, l, "k")
		if got := record(t, h, with("X-First", "2", "X-Key", "k")); got.Status != 200 || taken(t, l, "k") != 7 {
			t.Errorf("got status %d and a count of %d, want 200 and 7", got.Status, taken(t, l, "k"))
		}
	})
	t.Run("of an exhausted key, another key of the limiter", func(t *testing.T) { // it stays charged
		l := core.Must(core.New(memory(), core.SlidingLog("r", core.PerMinute(1))))
		h := build(l, constant("k"), []gate.Option{costHeader("X-First"), gate.And(l, header("X-Key"), costs(1)), quiet}, says("ok"))
		record(t, h, with("X-First", "1")) // exhausts k
		reset(t, l, "k")
		if got := record(t, h, with("X-First", "0", "X-Key", "a")); got.Status != 200 || taken(t, l, "a") != 1 || taken(t, l, "k") != 0 {
			t.Errorf("got status %d and counts of %d and %d, want 200, 1 and 0", got.Status, taken(t, l, "a"), taken(t, l, "k"))
		}
	})
}

// figures returns the numbers of decisions and of attempts.
func figures(s *observe.Store) (total observe.Counts, attempts float64) {
	n := s.Snapshot()
	i := slices.IndexFunc(n.Measures, func(m observe.Measure) bool { return m.Name == "weir.attempts" })
	return n.Total(), n.Measures[i].Value
}

// Each request of a gate with several keys is one decision, also if a key is charged early.
func TestAnd_Observer(t *testing.T) {
	s := observe.New(memstore.New())
	ip := testkit.Limiter(t, s, core.SlidingLog("ip", core.PerHour(2)))
	user := testkit.Limiter(t, s, core.SlidingLog("user", core.PerHour(9)))
	h := build(ip, constant("a"), []gate.Option{gate.And(user, header("X-User"))}, func(http.ResponseWriter, *http.Request) {})
	for range 4 { // the third one is denied by both keys, the fourth by the early charge
		record(t, h, with("X-User", "ann"))
	}
	if total, attempts := figures(s); total.Total() != 4 || total[driver.Allowed] != 2 || total[driver.Denied] != 2 || attempts != 0 {
		t.Errorf("got %v and %v attempts, want 2 allowed and 2 denied", total, attempts)
	}
	reset(t, ip, "a")
	record(t, h, with("X-User", "ann")) // is charged early, refunded, and decided
	if total, attempts := figures(s); total.Total() != 5 || total[driver.Allowed] != 3 || attempts != 1 {
		t.Errorf("after Reset: got %v and %v attempts, want one more allowed, and one attempt", total, attempts)
	}
	record(t, h, with()) // has no second key: the early charge stays, and is an attempt without a decision
	if total, attempts := figures(s); total.Total() != 5 || attempts != 2 {
		t.Errorf("without a key: got %v and %v attempts, want one attempt more", total, attempts)
	}
}
