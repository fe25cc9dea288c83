package gatetest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
)

func (s *suite) testSettle(t *testing.T) {
	no := gate.RefundIf(func(int) bool { return false })
	queue := core.LeakyBucket("queue", core.PerHour(100))
	type call struct {
		cost int
		err  error
		want int // taken after it
	}
	for _, c := range []struct {
		name  string
		rules []core.Rule // hundred if nil
		opts  []gate.Option
		calls []call
	}{
		{"plain", nil, nil, []call{
			{1, nil, 1}, {7, nil, 7}, {7, nil, 7}, {6, gate.ErrNotReserved, 7}, {0, gate.ErrNotReserved, 7},
			{-1, core.ErrNegativeCost, 7}, {100, nil, 100}, {500, nil, 100}, {499, gate.ErrNotReserved, 100},
		}},
		{"plain, into debt", []core.Rule{core.TokenBucket("bucket", core.PerHour(100))}, nil, []call{{250, nil, 100}}},
		{"Cost", nil, []gate.Option{costs(10)}, []call{
			{10, nil, 10}, {25, nil, 25}, {3, nil, 3}, {0, nil, 0}, {-1, core.ErrNegativeCost, 0}, {8, nil, 8},
		}},
		{"a cost of zero", nil, []gate.Option{costs(0)}, []call{{0, nil, 0}, {9, nil, 9}, {4, nil, 4}}},
		{"RefundIf", nil, []gate.Option{no}, []call{{5, nil, 5}, {2, nil, 2}, {0, nil, 0}}},
		{"leaky bucket", []core.Rule{queue}, nil, []call{{5, nil, 5}, {2, nil, 2}, {0, nil, 0}}},
		{"MaxDelay", nil, []gate.Option{gate.MaxDelay(time.Second)}, []call{{5, nil, 5}, {2, gate.ErrNotReserved, 5}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := hundred(memstore.New())
			if c.rules != nil {
				l = core.Must(core.New(memstore.New(), c.rules...))
			}
			opts := append(c.opts, gate.And(l, constant("b")))
			h := s.build(l, constant("a"), opts, func(_ http.ResponseWriter, r *http.Request) {
				for i, call := range c.calls {
					if err := gate.Settle(r.Context(), call.cost); !errors.Is(err, call.err) {
						t.Errorf("call %d, to %d: %v, want %v", i, call.cost, err, call.err)
					}
					if a, b := taken(t, l, "a"), taken(t, l, "b"); a != call.want || b != call.want {
						t.Errorf("call %d, to %d: %d and %d are taken, want %d of both", i, call.cost, a, b, call.want)
					}
				}
			})
			if got := exchange(t, h, request("GET", "/")); got.status != 200 {
				t.Errorf("status %d", got.status)
			}
		})
	}
	t.Run("nothing to settle", s.testSettleNothing)
	t.Run("innermost", s.testSettleInnermost)
	t.Run("ended", func(t *testing.T) { s.testSettleEnded(t, nil); s.testSettleEnded(t, []gate.Option{costs(1)}) })
	t.Run("at once", s.testSettleAtOnce)
	t.Run("then refunded", func(t *testing.T) {
		l, j := hundred(memstore.New()), new(judge)
		h := s.build(l, constant("k"), []gate.Option{j.option()}, func(_ http.ResponseWriter, r *http.Request) {
			if err := gate.Settle(r.Context(), 40); err != nil || taken(t, l, "k") != 40 {
				t.Errorf("%d are taken, %v", taken(t, l, "k"), err)
			}
		})
		exchange(t, h, request("GET", "/"))
		if n := taken(t, l, "k"); n != 0 {
			t.Errorf("%d are taken: a refund gives back all that the request took", n)
		}
	})
	t.Run("store fails", func(t *testing.T) {
		for name, opts := range map[string][]gate.Option{"plain": nil, "reserved": {costs(1)}} {
			store := &script{states: states{"burst": allowed(1, 0, 0)}}
			h := s.build(core.Must(core.New(store, burst)), constant("k"), opts, func(_ http.ResponseWriter, r *http.Request) {
				store.fail(errSecret)
				if err := gate.Settle(r.Context(), 5); !errors.Is(err, errSecret) {
					t.Errorf("%s: %v, want the error of the Store", name, err)
				}
				store.fail(nil)
				if err := gate.Settle(r.Context(), 5); err != nil || store.called() != 2 {
					t.Errorf("%s: %v, and the Store was called %d times; what may have been charged is not charged again", name, err, store.called())
				}
			})
			exchange(t, h, request("GET", "/"))
		}
	})
}

// testSettleNothing has requests that no gate has admitted.
func (s *suite) testSettleNothing(t *testing.T) {
	if err := gate.Settle(t.Context(), 1); !errors.Is(err, gate.ErrNotAdmitted) {
		t.Errorf("without a gate: %v", err)
	}
	skipped := gate.Skip(func(*http.Request) bool { return true })
	for name, c := range map[string]struct {
		err  error
		opts []gate.Option
	}{
		"skipped": {nil, []gate.Option{skipped}}, "undecided": {errSecret, []gate.Option{quiet}},
	} {
		inner := core.Must(core.New(&script{err: c.err, states: states{"burst": allowed(1, 0, 0)}}, burst))
		ran := false
		handler := func(_ http.ResponseWriter, r *http.Request) {
			ran = true
			if err := gate.Settle(r.Context(), 50); !errors.Is(err, gate.ErrNotAdmitted) {
				t.Errorf("%s: %v, want ErrNotAdmitted", name, err)
			}
		}
		h := s.build(inner, constant("k"), c.opts, handler)
		exchange(t, h, request("GET", "/"))
		outer := hundred(memstore.New())
		exchange(t, s.build(outer, constant("k"), nil, h.ServeHTTP), request("GET", "/"))
		if n := taken(t, outer, "k"); n != 1 || !ran {
			t.Errorf("%s: the gate around was charged %d for what the one inside would cost", name, n)
		}
	}
}

func (s *suite) testSettleInnermost(t *testing.T) {
	store := memstore.New()
	requests := core.Must(core.New(store, core.SlidingLog("requests", core.PerHour(100))))
	tokens := core.Must(core.New(store, core.TokenBucket("tokens", core.PerHour(100_000))))
	h := s.build(tokens, constant("k"), []gate.Option{costs(1000)}, func(_ http.ResponseWriter, r *http.Request) {
		if err := gate.Settle(r.Context(), 250); err != nil {
			t.Error(err)
		}
	})
	exchange(t, s.build(requests, constant("k"), nil, h.ServeHTTP), request("GET", "/"))
	if a, b := taken(t, requests, "k"), taken(t, tokens, "k"); a != 1 || b != 250 {
		t.Errorf("%d requests and %d tokens are taken, want 1 and 250", a, b)
	}
}

// testSettleEnded settles when the request is over and its context has ended.
func (s *suite) testSettleEnded(t *testing.T, opts []gate.Option) {
	l := hundred(memstore.New())
	var kept context.Context
	h := s.build(l, constant("k"), opts, func(_ http.ResponseWriter, r *http.Request) { kept = r.Context() })
	ctx, cancel := context.WithCancel(t.Context())
	record(t, h, request("GET", "/").WithContext(ctx))
	cancel()
	if err := gate.Settle(kept, 30); err != nil || taken(t, l, "k") != 30 {
		t.Errorf("%v, and %d are taken, want 30", err, taken(t, l, "k"))
	}
}

// testSettleAtOnce settles from many goroutines: the largest cost stays, for less is
// an error of this gate.
func (s *suite) testSettleAtOnce(t *testing.T) {
	l := hundred(memstore.New())
	h := s.build(l, constant("k"), nil, func(_ http.ResponseWriter, r *http.Request) {
		var wg sync.WaitGroup
		for cost := 1; cost <= 64; cost++ {
			wg.Go(func() {
				if err := gate.Settle(r.Context(), cost); err != nil && !errors.Is(err, gate.ErrNotReserved) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
	exchange(t, h, request("GET", "/"))
	if n := taken(t, l, "k"); n != 64 {
		t.Errorf("%d are taken, want 64", n)
	}
}
