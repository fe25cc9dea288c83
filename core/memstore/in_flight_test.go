package memstore

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// inFlight compiles a rule of n events at the same time, whose places lapse after a minute.
func inFlight(t *testing.T, n int) *driver.Compiled {
	t.Helper()
	c, err := driver.Definition{Name: "places", Algorithm: driver.InFlight, Events: n, Hold: time.Minute}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// byCost compiles a rule of n places by cost, which lapse after a minute.
func byCost(t *testing.T, n int) *driver.Compiled {
	t.Helper()
	d := inFlight(t, 1).Definition
	d.Events, d.ByCost = n, true
	c, err := d.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s *testStore) take(t *testing.T, rule *driver.Compiled, key string) (v driver.Verdict, m driver.Receipt) {
	t.Helper()
	charges := []driver.Charge{{Key: key, Rule: rule, Cost: 1}}
	if err := s.Take(t.Context(), charges); err != nil {
		t.Fatal(err)
	}
	return charges[0].Verdict, charges[0].Receipt
}

func (s *testStore) adjust(t *testing.T, rule *driver.Compiled, key string, op driver.Op, m driver.Receipt) driver.Verdict {
	t.Helper()
	charges := []driver.Charge{{Key: key, Rule: rule, Cost: 1, Op: op, Receipt: m}}
	if err := s.Adjust(t.Context(), charges); err != nil {
		t.Fatal(err)
	}
	return charges[0].Verdict
}

// placeKeys returns the number of keys with places in memory.
func (s *testStore) placeKeys() (n int) {
	for i := range s.shards {
		for _, slot := range s.shards[i].items.slots {
			if slot.hash != 0 && slot.value.rule.Algorithm == driver.InFlight {
				n++
			}
		}
	}
	return n
}

func (s *testStore) checkSizes(t *testing.T) {
	t.Helper()
	for i := range s.shards {
		sh := &s.shards[i]
		if want := sumSizes(&sh.buckets) + sumSizes(&sh.items); sh.size != want {
			t.Errorf("shard %d: got a size of %d bytes, expected %d", i, sh.size, want)
		}
	}
}

// A full store takes places, counts them for their own key only, and frees them. Its memory is then
// the same as before.
func TestStore_Take_placesInAFullStore(t *testing.T) {
	for name, rule := range map[string]*driver.Compiled{
		"lapsing": inFlight(t, 2), "lasting": inFlight(t, 2).Lasting, "lapsing, by cost": byCost(t, 2), "lasting, by cost": byCost(t, 2).Lasting,
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := fullStore(t)
			before := s.Stats()
			const keys = 300 // more than there are overflow buckets
			var receipts [keys][2]driver.Receipt
			for i := range keys {
				key := strconv.Itoa(i)
				for j := range receipts[i] {
					v, m := s.take(t, rule, key)
					if !v.Allowed || v.Remaining != 1-j {
						t.Fatalf("key %d, place %d: got %+v, expected %d places left", i, j, v, 1-j)
					}
					receipts[i][j] = m
				}
				if v, _ := s.take(t, rule, key); v.Allowed {
					t.Fatalf("key %d: a third place was taken", i)
				}
			}
			if got := s.Stats(); got.States != before.States+keys || got.Overflowed != before.Overflowed || got.Evicted != before.Evicted {
				t.Errorf("got %+v, expected %d states more than %+v", got, keys, before)
			}
			for i := range keys {
				for j, m := range receipts[i] {
					if v := s.adjust(t, rule, strconv.Itoa(i), driver.Renew, m); !v.Found {
						t.Fatalf("key %d, place %d: got %+v, expected a place to renew", i, j, v)
					}
				}
				for j, m := range receipts[i] {
					if v := s.adjust(t, rule, strconv.Itoa(i), driver.Undo, m); v.Remaining != 1+j {
						t.Fatalf("key %d, place %d: got %+v, expected Remaining %d", i, j, v, 1+j)
					}
				}
			}
			if got := s.Stats(); got.States != before.States || got.Memory != before.Memory {
				t.Errorf("all places are free: got %+v, expected the states and memory of %+v", got, before)
			}
			s.checkSizes(t)
		})
	}
}

// A flood of other states evicts no taken place, however many are taken of the limit.
func TestStore_Take_placesAreNotEvicted(t *testing.T) {
	s := newTestStore(1)
	rule := inFlight(t, 100).Lasting // one place is a hundredth of the limit
	const keys = 200
	for i := range keys {
		s.take(t, rule, strconv.Itoa(i))
	}
	for i, algorithm := range algorithms {
		l := s.limiter(algorithm(fmt.Sprint("flood", i), core.PerHour(1000)))
		for j := range 5000 {
			allow(t, l, strconv.Itoa(j))
		}
	}
	if s.Stats().Evicted == 0 {
		t.Fatal("got no evictions, expected a flood")
	}
	for i := range keys {
		if v, _ := s.take(t, rule, strconv.Itoa(i)); v.Remaining != 98 {
			t.Fatalf("key %d: got %+v, expected the second place of 100", i, v)
		}
	}
}

// The places of a Lasting rule do not lapse while the store is in use. Lapsed places of other rules are
// removed like other expired states.
func TestStore_Take_lapsedPlaces(t *testing.T) {
	for name, want := range map[string]int{"lapsing": 0, "lasting": 500} {
		t.Run(name, func(t *testing.T) {
			s := newTestStore(1)
			rule := inFlight(t, 1)
			if want > 0 {
				rule = rule.Lasting
			}
			for i := range 500 {
				s.take(t, rule, strconv.Itoa(i))
			}
			s.now += 24 * time.Hour.Microseconds()
			l := s.limiter(core.FixedWindow("r", core.PerHour(10)))
			for i := range 5000 {
				allow(t, l, strconv.Itoa(i))
			}
			if got := s.placeKeys(); got != want {
				t.Errorf("got %d keys with places, expected %d", got, want)
			}
		})
	}
}

// Random events of many keys, in a store that is full at times, are counted exactly, also those of at most a cost, and the
// sizes are right. An undo of a part frees all of an event.
func TestStore_Take_randomPlaces(t *testing.T) {
	type event struct {
		key  string
		cost int
		m    driver.Receipt
	}
	for name, c := range map[string]struct {
		rule            *driver.Compiled
		keys, cost      int // cost is the largest
		denied, reduced int // the least number of denials, and of keys filled by AtMost
	}{"one place": {inFlight(t, 3).Lasting, 400, 1, 50, 0}, "by cost": {byCost(t, 50).Lasting, 300, 40, 50, 10}} {
		t.Run(name, func(t *testing.T) {
			rule, places := c.rule, c.rule.Events
			for seed := range uint64(4) {
				rng := rand.New(rand.NewPCG(seed, 30))
				s := newTestStore(1)
				fill := s.limiter(core.SlidingLog("fill", core.PerHour(100)))
				taken := make(map[string]int)
				var held []event
				denied, reduced := 0, 0
				for step := range 5000 {
					s.now += rng.Int64N(1_000_000)
					switch n := rng.IntN(6); {
					case n == 0:
						allowN(t, fill, strconv.Itoa(rng.IntN(2000)), 1+rng.IntN(50))
					case n < 4:
						key, atMost := strconv.Itoa(rng.IntN(c.keys)), rule.ByCost && rng.IntN(3) == 0
						charges := []driver.Charge{{Key: key, Rule: rule, Cost: 1 + rng.IntN(c.cost), AtMost: atMost}}
						want := charges[0].Cost
						if atMost {
							want = min(want, places-taken[key])
						}
						if err := s.Take(t.Context(), charges); err != nil {
							t.Fatal(err)
						}
						got := charges[0]
						if fits := want > 0 && want <= places-taken[key]; got.Verdict.Allowed != fits || fits && got.Cost != want {
							t.Fatalf("step %d: %d places of key %s are taken, and got the cost %d and %+v", step, taken[key], key, got.Cost, got.Verdict)
						}
						if !got.Verdict.Allowed {
							denied++
							continue
						}
						if taken[key] += got.Cost; got.Verdict.Remaining != places-taken[key] {
							t.Fatalf("step %d: got %+v, expected %d places taken", step, got.Verdict, taken[key])
						}
						if atMost && taken[key] == places {
							reduced++
						}
						held = append(held, event{key, got.Cost, got.Receipt})
					case len(held) > 0:
						i := rng.IntN(len(held))
						e := held[i]
						if rng.IntN(3) == 0 {
							if v := s.adjust(t, rule, e.key, driver.Renew, e.m); !v.Found {
								t.Fatalf("step %d: got %+v of an event that has its places", step, v)
							}
							continue
						}
						taken[e.key] -= e.cost
						if v := s.adjust(t, rule, e.key, driver.Undo, e.m); v.Remaining != places-taken[e.key] {
							t.Fatalf("step %d: got %+v, expected %d places taken", step, v, taken[e.key])
						}
						held[i] = held[len(held)-1]
						held = held[:len(held)-1]
					}
				}
				for _, e := range held {
					s.adjust(t, rule, e.key, driver.Undo, e.m)
				}
				if n := s.placeKeys(); n > 0 || s.Stats().Overflowed == 0 {
					t.Errorf("all places are free: got %d keys with places in a store with %+v, expected none, and a store that was full", n, s.Stats())
				}
				if denied < c.denied || reduced < c.reduced {
					t.Errorf("got %d denials and %d keys filled by AtMost, expected %d and %d", denied, reduced, c.denied, c.reduced)
				}
				s.checkSizes(t)
			}
		})
	}
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
