package memstore

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		testkit.WithoutRace(t, testkit.SlowCases...)
		s := newTestStore(DefaultMaxMemory / keySize)
		return &storetest.Harness{
			Store:   s.Store,
			Now:     func() time.Time { return time.UnixMicro(s.now) },
			Advance: func(d time.Duration) { s.now += d.Microseconds() },
		}
	})
}

func TestStore_Describe(t *testing.T) {
	if d := driver.Describe(New()); !d.Local || !d.Steady || d.Clock != nil {
		t.Errorf("got %+v, want a local and steady store", d)
	}
	if d := driver.Describe(New(Clock(func() time.Time { return time.Unix(1, 0) }))); !d.Local || d.Steady || d.Clock().Unix() != 1 {
		t.Errorf("with a clock: got %+v", d)
	}
	if d := driver.Describe(struct{ driver.Store }{New()}); d.Local || d.Steady {
		t.Errorf("got %+v for a store over a store without Describe", d)
	}
}

func TestShards_number(t *testing.T) {
	for _, c := range []struct{ maxKeys, want int }{
		{1, 1},
		{2047, 1},
		{2048, 2},
		{100_000, 64},
		{DefaultMaxMemory / keySize, 256},
		{256 * maxShard, 256},
		{256*maxShard + 256, 512},
		{1 << 27, 4096},
		{math.MaxInt, 4096},
	} {
		if got := shards(c.maxKeys); got != c.want {
			t.Errorf("room for %d keys: got %d shards, expected %d", c.maxKeys, got, c.want)
		}
	}
}

// The periods of a quota are those of the wall clock, even if that has been set since the start of the
// store. Other rules in the same decision have the time of the store.
func TestStore_Take_quotaByTheWallClock(t *testing.T) {
	for name, set := range map[string]time.Duration{"as before": 0, "set ahead": 7 * time.Hour, "set back": -7 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(9*time.Hour + 30*time.Minute) // since midnight
				s := New()
				s.origin -= set.Microseconds() // the time of the store is now that of the wall clock before it was set
				quota := testkit.Limiter(t, s, core.Quota("q", core.Daily(5)))
				window := testkit.Limiter(t, s, core.FixedWindow("w", core.Per(5, 24*time.Hour)))
				want := []time.Duration{14*time.Hour + 30*time.Minute, 14*time.Hour + 30*time.Minute + set}
				for i := range 2 {
					if d := testkit.Allow(t, quota, "k"); d.State(0).Window != want[0] || d.State(0).Remaining != 4-2*i {
						t.Errorf("got %v for %v, expected the rest of the day, %v", d, d.State(0).Window, want[0])
					}
					d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: window, Key: "k"}, core.Ask{Limiter: quota, Key: "k"})
					testkit.Must(t, err)
					if d.State(0).Window != want[1] || d.State(1).Window != want[0] || d.State(1).Remaining != 3-2*i {
						t.Errorf("got %v for %v and %v, expected %v and %v", d, d.State(0).Window, d.State(1).Window, want[1], want[0])
					}
				}
				testkit.Must(t, quota.Debit(t.Context(), "k", 10))
				d := testkit.Allow(t, quota, "k")
				if d.Allowed || d.RetryAfter != want[0] {
					t.Fatalf("got %v for %v after a debit, expected a denial for %v", d, d.RetryAfter, want[0])
				}
				time.Sleep(want[0] - time.Microsecond)
				if d := testkit.Allow(t, quota, "k"); d.Allowed {
					t.Errorf("a microsecond before midnight: got %v", d)
				}
				time.Sleep(time.Microsecond)
				if d := testkit.Allow(t, quota, "k"); d.State(0).Remaining != 4 {
					t.Errorf("at midnight: got %v, expected a new day", d)
				}
				testkit.Must(t, quota.Credit(t.Context(), "k", 1))
				if found, err := quota.Reset(t.Context(), "k"); err != nil || found {
					t.Errorf("got %t, %v of a Reset, expected a key that is not in use", found, err)
				}
			})
		})
	}
}

// Random calls of many rules keep the bound on memory, the sizes and the limits, in a store that
// becomes full and empty again. A strict rule has a limit of one or two events. One event is half
// of it, so its states are never evicted, and its keys can be held to their limit.
func TestStore_randomCalls(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			const steps, span = 6000, 50 * time.Minute // all within one window of the strict rules
			rng := rand.New(rand.NewPCG(seed, 7))
			s := newTestStore(1024 << rng.IntN(3))
			var rules []core.Rule
			var strict, loose []*core.Limiter
			var limits []int
			for i, algorithm := range testkit.Algorithms {
				limits = append(limits, 1+rng.IntN(2))
				limit := core.PerHour(limits[i])
				if algorithm.Kind().Refills { // it must not refill during the test
					limit = core.PerDay(1).WithBurst(limits[i])
				}
				strict = append(strict, s.limiter(algorithm.Rule(fmt.Sprint("strict", i), limit)))
				for j, l := range []core.Limit{core.PerHour(10), core.PerMinute(100), core.Per(7, 50*time.Millisecond)} {
					rules = append(rules, algorithm.Rule(fmt.Sprint("loose", i, j), l))
				}
			}
			rules = append(rules, core.SlidingLog("log", core.Per(200, time.Minute)), core.SlidingLog("shadow", core.Per(300, time.Minute)).Soft(10).Shadow())
			for _, r := range rules {
				loose = append(loose, s.limiter(r))
			}
			all := s.limiter(rules[len(rules)-15:]...)
			sums := make(map[string]int)
			var held []*core.Reservation
			var phase *core.Limiter // most calls are of one rule for a while
			for step := range steps {
				if step%600 == 0 {
					phase = loose[rng.IntN(len(loose))]
				}
				s.now += rng.Int64N(2*span.Microseconds()/steps) * int64(step/600%2) // time stands still in every other phase
				if rng.IntN(8) == 0 {
					i, key := rng.IntN(len(strict)), strconv.Itoa(rng.IntN(100))
					if id := fmt.Sprint(i, " ", key); allow(t, strict[i], key) {
						if sums[id]++; sums[id] > limits[i] {
							t.Fatalf("step %d: rule %d: key %s was admitted %d times, limit %d", step, i, key, sums[id], limits[i])
						}
					}
					continue
				}
				l, key := phase, strconv.Itoa(rng.IntN(1+rng.IntN(3000)))
				if rng.IntN(4) == 0 {
					l = loose[rng.IntN(len(loose))]
				}
				testkit.Must(t, randomCall(t, rng, l, all, key, &held))
				if step%20 == 0 {
					s.checkMemory(t, step, len(rules)+len(strict))
				}
			}
			if got := s.Stats(); got.Evicted == 0 {
				t.Errorf("got %+v, expected a store that was full", got)
			}
		})
	}
}

// randomCall makes a random call of l for key. held are the reservations that it has made.
func randomCall(t *testing.T, rng *rand.Rand, l, all *core.Limiter, key string, held *[]*core.Reservation) (err error) {
	ctx := t.Context()
	switch rng.IntN(16) {
	case 0:
		err = l.Debit(ctx, key, 1+rng.IntN(300))
	case 1:
		err = l.Credit(ctx, key, 1+rng.IntN(9))
	case 2:
		_, err = l.Reset(ctx, key)
	case 3:
		_, err = core.AllowTogether(ctx, core.Ask{Limiter: l, Key: key}, core.Ask{Limiter: all, Key: strconv.Itoa(rng.IntN(900)), Cost: 3})
	case 4:
		var r *core.Reservation
		r, err = l.Reserve(ctx, key, 1+rng.IntN(4))
		*held = append(*held, r)
	case 5:
		if n := len(*held); n > 0 {
			err = (*held)[n-1].Settle(ctx, rng.IntN(6))
			*held = (*held)[:n-1]
		}
	default:
		_, err = l.AllowN(ctx, key, 1+rng.IntN(3))
	}
	return err
}
