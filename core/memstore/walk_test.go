package memstore

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

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
			for i, algorithm := range algorithms {
				limits = append(limits, 1+rng.IntN(2))
				limit := core.PerHour(limits[i])
				if i < 2 { // a bucket must not refill during the test
					limit = core.PerDay(1).WithBurst(limits[i])
				}
				strict = append(strict, s.limiter(algorithm(fmt.Sprint("strict", i), limit)))
				for j, l := range []core.Limit{core.PerHour(10), core.PerMinute(100), core.Per(7, 50*time.Millisecond)} {
					rules = append(rules, algorithm(fmt.Sprint("loose", i, j), l))
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
				if err := randomCall(t, rng, l, all, key, &held); err != nil {
					t.Fatal(err)
				}
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
