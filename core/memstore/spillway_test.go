package memstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// fullStore returns a store of one shard that is full of states that stay, and the limiter of
// those. Its clock returns *now.
func fullStore(t *testing.T, now *int64) (s *Store, fill *core.Limiter) {
	t.Helper()
	s = New(MaxMemory(1))
	s.SetClock(func() int64 { return *now })
	fill = core.Must(core.New(s, core.TokenBucket("fill", core.PerHour(2))))
	for i := range 3000 {
		if _, err := fill.AllowN(t.Context(), fmt.Sprint(i), 2); err != nil {
			t.Fatal(err)
		}
	}
	if s.Stats().Overflowed == 0 {
		t.Fatal("the store is not full")
	}
	return s, fill
}

// twoKeys returns two keys that share a spillway of r.
func twoKeys(s *Store, r core.Rule) (k1, k2 string) {
	spill := func(key string) uint64 { return newHashes(s.hash(key), r.Compiled().ID()).overflow }
	for i := 1; ; i++ {
		if k := fmt.Sprint("k", i); spill(k) == spill("k0") {
			return "k0", k
		}
	}
}

// The store becomes full, a log is put into a spillway, and then there is room again.
func TestStore_Take_logInSpillwayAndRoomAgain(t *testing.T) {
	start := int64(1_700_000_000_000_000)
	now := start
	s, fill := fullStore(t, &now)
	log := core.SlidingLog("log", core.Per(10, time.Millisecond))
	l := core.Must(core.New(s, log))
	k1, k2 := twoKeys(s, log)
	for _, call := range []struct {
		at  int64
		key string
	}{{0, k1}, {1, k1}, {2, k1}, {1001, k1}, {1500, k1}, {3000, k1}, {5000, k1}, {7000, k1}, {7000, k2}} {
		now = start + call.at
		if _, err := l.Allow(t.Context(), call.key); err != nil {
			t.Fatal(err)
		}
		if call.at == 0 {
			for i := range 100 {
				if _, err := fill.Reset(t.Context(), fmt.Sprint(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if weight, _ := s.Weight(); weight != s.Recount() {
			t.Fatalf("at %d: got a weight of %d bytes, expected %d", call.at, weight, s.Recount())
		}
	}
}

func TestStore_Take_twoKeysOfOneSpillway(t *testing.T) {
	for _, r := range []core.Rule{
		core.TokenBucket("r", core.PerHour(4)), core.LeakyBucket("r", core.PerHour(4)), core.FixedWindow("r", core.PerHour(4)),
		core.SlidingLog("r", core.PerHour(4)), core.SlidingWindow("r", core.PerHour(4)),
	} {
		t.Run(r.Algorithm().String(), func(t *testing.T) {
			now := int64(1_700_000_000_000_000)
			s, _ := fullStore(t, &now)
			l := core.Must(core.New(s, r))
			k1, k2 := twoKeys(s, r)
			for _, step := range []struct {
				cost1, cost2, left int
				allowed            bool
			}{{3, 2, 4, false}, {1, 2, 1, true}, {1, 1, 1, false}} {
				d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: l, Key: k1, Cost: step.cost1}, core.Ask{Limiter: l, Key: k2, Cost: step.cost2})
				if err != nil {
					t.Fatal(err)
				}
				after, err := l.Peek(t.Context(), k1)
				if err != nil {
					t.Fatal(err)
				}
				if left := after.State(0).Remaining; d.Allowed != step.allowed || left != step.left || d.Allowed != (d.RetryAfter == 0) {
					t.Errorf("costs %d and %d: got %v with %d left, expected %t with %d", step.cost1, step.cost2, d, left, step.allowed, step.left)
				}
			}
		})
	}
}

func TestStore_Take_panicUnlocks(t *testing.T) {
	r := core.TokenBucket("r", core.PerSecond(3)).Compiled()
	good := driver.Charge{Key: "other", Rule: r, Cost: 1}
	for name, charges := range map[string][]driver.Charge{
		"one":  {{Key: "k", Rule: r, Cost: 1, Op: driver.Debit}},
		"more": {good, {Key: "k", Rule: r, Cost: 1, Op: driver.Debit}},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(MaxMemory(1))
			func() {
				defer func() {
					if recover() == nil {
						t.Error("Take of a Debit did not panic")
					}
				}()
				_ = s.Take(context.Background(), charges)
			}()
			for i := range s.shards {
				if !s.shards[i].mu.TryLock() {
					t.Fatalf("shard %d is locked", i)
				}
			}
		})
	}
}

// The weight is right after every call, in a store that becomes full and empty again.
func TestStore_Weight_afterEachCall(t *testing.T) {
	const steps = 15_000
	rng := rand.New(rand.NewPCG(5, 6))
	now := int64(1_700_000_000_000_000)
	s := New(MaxMemory(1))
	s.SetClock(func() int64 { return now })
	const per = 50 * time.Millisecond
	rules := []core.Rule{
		core.TokenBucket("a", core.Per(7, per)), core.LeakyBucket("b", core.Per(7, per)), core.FixedWindow("c", core.Per(7, per)),
		core.SlidingLog("d", core.Per(200, per)), core.SlidingWindow("e", core.Per(7, per)), core.SlidingLog("f", core.Per(300, per)).Soft(10).Shadow(),
	}
	limiters := []*core.Limiter{core.Must(core.New(s, rules...))}
	for _, r := range rules {
		limiters = append(limiters, core.Must(core.New(s, r)))
	}
	var held []*core.Reservation
	ctx := t.Context()
	for step := range steps {
		now += rng.Int64N(1+per.Microseconds()/2000) * rng.Int64N(2)
		l, key := limiters[rng.IntN(len(limiters))], fmt.Sprint(rng.IntN(1+rng.IntN(900)))
		var err error
		switch rng.IntN(8) {
		case 0:
			err = l.Debit(ctx, key, 1+rng.IntN(40))
		case 1:
			err = l.Credit(ctx, key, 1+rng.IntN(9))
		case 2:
			_, err = l.Reset(ctx, key)
		case 3:
			var r *core.Reservation
			r, err = l.Reserve(ctx, key, 1+rng.IntN(4))
			held = append(held, r)
		case 4:
			if n := len(held); n > 0 {
				err = held[n-1].Settle(ctx, rng.IntN(6))
				held = held[:n-1]
			}
		case 5:
			_, err = core.AllowTogether(ctx, core.Ask{Limiter: l, Key: key}, core.Ask{Limiter: limiters[0], Key: fmt.Sprint(rng.IntN(900)), Cost: 3})
		default:
			_, err = l.AllowN(ctx, key, 1+rng.IntN(3))
		}
		if err != nil {
			t.Fatal(err)
		}
		if weight, _ := s.Weight(); weight != s.Recount() {
			t.Fatalf("step %d: got a weight of %d bytes, expected %d", step, weight, s.Recount())
		}
	}
	if s.Stats().Overflowed == 0 {
		t.Error("the store was never full")
	}
}
