package memstore

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

// byCost compiles a rule of n places by cost, which lapse after a minute.
func byCost(t *testing.T, n int) *driver.Compiled {
	t.Helper()
	d := inFlight(t, 1).Definition
	d.Events, d.ByCost = n, true
	c, err := d.Compile()
	testkit.Must(t, err)
	return c
}

func (s *testStore) adjust(t *testing.T, rule *driver.Compiled, key string, op driver.Op, m driver.Receipt) driver.Verdict {
	t.Helper()
	charges := []driver.Charge{{Key: key, Rule: rule, Cost: 1, Op: op, Receipt: m}}
	testkit.Must(t, s.Adjust(t.Context(), charges))
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
						testkit.Must(t, s.Take(t.Context(), charges))
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

// The states of pauses take the documented memory: 55 to 72 bytes. Keys without a pause have none, and a state is
// removed when its pause is over, and not before.
func TestStore_Take_memoryOfPauses(t *testing.T) {
	testkit.WithoutRace(t)
	s := newTestStore(DefaultMaxMemory / keySize)
	l := s.limiter(core.Pause("p"))
	const keys = 50_000
	for i := range keys {
		allow(t, l, "open "+strconv.Itoa(i))
	}
	if got := s.Stats(); got.States != 0 {
		t.Errorf("got %+v, expected no states of keys that are open", got)
	}
	pause := func(prefix string) {
		for i := range keys {
			testkit.Must(t, l.Pause(t.Context(), prefix+strconv.Itoa(i), time.Hour))
		}
	}
	pause("")
	bytes := 0
	for i := range s.shards {
		bytes += tableBytes(&s.shards[i].items)
	}
	if got := float64(bytes) / keys; got < 48 || got > 72 {
		t.Errorf("got %.1f bytes for each key, expected 48 to 72", got)
	}
	s.now += time.Hour.Microseconds() - 1
	for i := range keys {
		if allow(t, l, strconv.Itoa(i)) {
			t.Fatalf("key %d was admitted a microsecond before the end", i)
		}
	}
	if got := s.Stats(); got.States != keys {
		t.Errorf("got %+v, expected %d states", got, keys)
	}
	s.now++
	pause("new ")
	if got := s.Stats(); got.States > keys*5/4 {
		t.Errorf("got %+v, expected the states of the first pauses to be removed", got)
	}
	s.checkMemory(t, "after the first pauses", 1)
}

// The states of quotas take the documented memory: 55 to 72 bytes. They are removed when their period is
// over, and not before.
func TestStore_Take_memoryOfQuotas(t *testing.T) {
	testkit.WithoutRace(t)
	s := newTestStore(DefaultMaxMemory / keySize)
	l := s.limiter(core.Quota("q", core.Daily(2)))
	const keys = 200_000
	for range 2 {
		for i := range keys {
			if !allow(t, l, strconv.Itoa(i)) {
				t.Fatalf("key %d was denied", i)
			}
		}
		s.now += 10 * time.Hour.Microseconds() // until 20:00
	}
	bytes := 0
	for i := range s.shards {
		bytes += tableBytes(&s.shards[i].items)
	}
	if got := float64(bytes) / keys; got < 48 || got > 72 {
		t.Errorf("got %.1f bytes for each key, expected 48 to 72", got)
	}
	if got := s.Stats(); got.States != keys {
		t.Errorf("got %+v, expected %d states", got, keys)
	}
	s.now += 10 * time.Hour.Microseconds() // the next day
	for i := range keys {
		allow(t, l, "new "+strconv.Itoa(i))
	}
	if got := s.Stats(); got.States > keys*5/4 {
		t.Errorf("got %+v, expected the states of the first day to be removed", got)
	}
	s.checkMemory(t, "on the next day", 1)
}

// The states of quotas and those of other rules have different clocks: neither removes the other's as
// expired, even if the wall clock has been set.
func TestStore_Take_statesOfTwoClocks(t *testing.T) {
	for name, set := range map[string]time.Duration{"set ahead": 3650 * 24 * time.Hour, "set back": -40 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			s := New(MaxMemory(1 << 20))
			s.origin -= set.Microseconds()
			limiters := []*core.Limiter{
				core.Must(core.New(s, core.FixedWindow("w", core.Per(2, 30*24*time.Hour)))),
				core.Must(core.New(s, core.Quota("q", core.Daily(2)))),
			}
			const keys = 200
			for i := range keys {
				for _, l := range limiters {
					allowN(t, l, strconv.Itoa(i), 2)
				}
			}
			for i := range 3000 {
				for _, l := range limiters {
					allow(t, l, "flood "+strconv.Itoa(i))
				}
			}
			for i := range keys {
				for j, l := range limiters {
					if allow(t, l, strconv.Itoa(i)) {
						t.Fatalf("rule %d: key %d was admitted again", j, i)
					}
				}
			}
		})
	}
}
