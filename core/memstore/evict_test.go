package memstore

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/testkit"
)

// A flood of new keys evicts no exhausted key and no debt, and denies no new key.
func TestStore_Take_floodOfUnusedKeys(t *testing.T) {
	testkit.WithoutRace(t)
	const maxKeys, flood, protected = 4096, 5 * 4096, 20
	for _, f := range floods {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s := newTestStore(maxKeys)
			f.run(t, s, "exhausted", protected)
			l := s.limiter(f.rule)
			for i := range protected {
				admitted(t, l, fmt.Sprint("exhausted", i), 5)
			}
			for i := range flood {
				allow(t, l, strconv.Itoa(i))
			}
			s.checkMemory(t, "flood", 0)
			for i := range protected {
				if allow(t, l, fmt.Sprint("exhausted", i)) {
					t.Errorf("the flood reset exhausted key %d", i)
				}
			}
			if !allow(t, l, "new") {
				t.Error("a new key is denied")
			}
			if stats := s.Stats(); stats.Evicted < flood/2 || stats.Overflowed > 0 {
				t.Errorf("got %+v, expected at least %d evicted and none overflowed", stats, flood/2)
			}
		})
	}
}

// A flood of keys that are exhausted by their first event evicts none. New keys share overflow
// buckets: they are limited, and are admitted again when those have expired.
func TestStore_Take_floodOfExhaustedKeys(t *testing.T) {
	const maxKeys, flood = 1024, 10 * 1024
	for _, rule := range []core.Rule{
		core.TokenBucket("r", core.PerHour(1)),
		core.SlidingLog("r", core.PerHour(1)),
	} {
		t.Run(rule.Algorithm().String(), func(t *testing.T) {
			t.Parallel()
			s := newTestStore(maxKeys)
			l := s.limiter(rule)
			allow(t, l, "exhausted")
			sum := 0
			for i := range flood {
				sum += admitted(t, l, strconv.Itoa(i), 1)
			}
			if allow(t, l, "exhausted") {
				t.Error("the flood reset an exhausted key")
			}
			if got := admitted(t, l, "new", 100); got > 1 {
				t.Errorf("a key in an overflow bucket was admitted %d times, limit 1", got)
			}
			s.checkMemory(t, "flood", 1)
			if states := s.shards[0].buckets.used + s.shards[0].items.used; sum >= states {
				t.Errorf("got %d admitted and the exhausted key, expected one for each of %d states", sum, states)
			}
			if got := s.Stats(); got.Overflowed != overflowBuckets || got.Evicted != 0 {
				t.Errorf("got %+v, expected %d overflowed and none evicted", got, overflowBuckets)
			}
			s.now += time.Hour.Microseconds()
			for i := range 100 {
				if !allow(t, l, fmt.Sprint("later", i)) {
					t.Fatalf("an hour later, new key %d is denied", i)
				}
			}
		})
	}
}

// Users who are too many for the store do not get more than their limit by evicting each other.
func TestStore_Take_tooManyUsersForLogs(t *testing.T) {
	t.Parallel()
	const users, limit = 150, 100 // there is room for 11 exact logs
	s := newTestStore(1024)
	l := s.limiter(core.SlidingLog("r", core.PerHour(limit)))
	var sums [users]int
	for range 2 * limit {
		for u := range sums {
			sums[u] += admitted(t, l, strconv.Itoa(u), 1)
		}
		s.now += 1000
	}
	if got := slices.Max(sums[:]); got > limit {
		t.Errorf("a user was admitted %d times, limit %d", got, limit)
	}
	s.checkMemory(t, "full", 1)
	if size, limit := s.size(); size < limit*3/4 {
		t.Errorf("got a size of %d bytes, expected at least %d", size, limit*3/4)
	}
}

// A log of a few events doubles its size as it grows. In a store of such logs, none may be
// evicted.
func TestStore_Take_smallLogsGrowInAFullStore(t *testing.T) {
	const maxKeys, events = 1024, 4
	for _, rule := range []core.Rule{
		core.SlidingLog("log", core.PerHour(events)),
		core.SlidingWindow("counter", core.PerHour(events)),
	} {
		t.Run(rule.Algorithm().String(), func(t *testing.T) {
			t.Parallel()
			s := newTestStore(maxKeys)
			l := s.limiter(rule)
			var sums [maxKeys]int
			for range 2 * events {
				for key := range sums {
					for range events / 2 { // a log that is half used is not evicted
						s.now += 100_000
						sums[key] += admitted(t, l, strconv.Itoa(key), 1)
					}
				}
			}
			s.checkMemory(t, "full", 1)
			if got := slices.Max(sums[:]); got > events {
				t.Errorf("a key was admitted %d times, limit %d", got, events)
			}
		})
	}
}

// A log reaches its limit in a store of any size, and stays there.
func TestStore_Take_oneLargeLog(t *testing.T) {
	for _, c := range []struct{ maxKeys, events int }{{1, 10}, {100, 200}, {1, 5000}, {10_000, 5000}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			s := newTestStore(c.maxKeys)
			l := s.limiter(core.SlidingLog("r", core.PerDay(c.events)))
			sum := 0
			for range 2 * c.events {
				s.now++
				sum += admitted(t, l, "one", 1)
			}
			if sum != c.events {
				t.Errorf("got %d admitted, limit %d", sum, c.events)
			}
			s.checkMemory(t, "full", 0)
		})
	}
}

// The memory of idle states is used again.
func TestStore_Take_idleStatesMakeRoom(t *testing.T) {
	t.Parallel()
	s := newTestStore(1 << 16)
	l := s.limiter(core.TokenBucket("r", core.Per(7, 7_000_003*time.Microsecond))) // times with a fraction
	for i := range 40_000 {
		allow(t, l, strconv.Itoa(i))
		s.now += 1000 // a state is idle after 1000 others
	}
	if size, _ := s.size(); size > 10_000*bucketSize {
		t.Errorf("got %d buckets, expected fewer than 10 000, of which 1000 are not idle", size/bucketSize)
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
	for i, algorithm := range testkit.Algorithms {
		l := s.limiter(algorithm.Rule(fmt.Sprint("flood", i), core.PerHour(1000)))
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

// A store that is full keeps the keys that are paused, however much of the pause is left.
func TestStore_Take_pausesAreNotEvicted(t *testing.T) {
	s := newTestStore(1)
	l := s.limiter(core.Pause("p"))
	flood := s.limiter(core.FixedWindow("w", core.PerDay(3)))
	for i := range 100 {
		testkit.Must(t, l.Pause(t.Context(), strconv.Itoa(i), time.Duration(1+i)*time.Hour))
	}
	for i := range 5000 {
		allow(t, flood, "flood "+strconv.Itoa(i))
	}
	if s.Stats().Evicted == 0 {
		t.Fatal("got no evictions, expected a flood")
	}
	for i := range 100 {
		if allow(t, l, strconv.Itoa(i)) {
			t.Errorf("key %d was admitted", i)
		}
	}
}

// A store that is full keeps the keys that have used up their quota.
func TestStore_Take_quotasAreNotEvicted(t *testing.T) {
	s := newTestStore(1)
	l := s.limiter(core.Quota("q", core.Daily(2)))
	for i := range 100 {
		allowN(t, l, strconv.Itoa(i), 2)
	}
	for i := range 5000 {
		allow(t, l, "flood "+strconv.Itoa(i))
	}
	if s.Stats().Overflowed == 0 {
		t.Fatal("got no overflow buckets, expected a flood")
	}
	for i := range 100 {
		if allow(t, l, strconv.Itoa(i)) {
			t.Errorf("key %d was admitted again", i)
		}
	}
}

// A bucket that is exhausted for a plan with headroom is not evicted.
func TestStore_Take_headroomInAFlood(t *testing.T) {
	s := newTestStore(1)
	others := s.limiter(core.TokenBucket("r", core.PerHour(100)).Headroom("batch", 90))
	batch := others.Plan("batch")
	for i := range 100 {
		allowN(t, batch, strconv.Itoa(i), 10)
	}
	for i := range 5000 {
		allowN(t, others, "flood "+strconv.Itoa(i), 30)
	}
	for i := range 100 {
		if allow(t, batch, strconv.Itoa(i)) {
			t.Fatalf("key %d was admitted again", i)
		}
	}
}

// A flood makes states of one kind, one for each key.
type flood struct {
	name string
	rule core.Rule
	debt bool // each key has a debt
}

var floods = []flood{
	{name: "bucket", rule: core.TokenBucket("bucket", core.PerHour(5))},
	{name: "debt", rule: core.TokenBucket("debt", core.PerHour(5)), debt: true},
	{name: "window", rule: core.FixedWindow("window", core.PerHour(5))},
	{name: "log", rule: core.SlidingLog("log", core.PerHour(5))},
	{name: "counter", rule: core.SlidingWindow("counter", core.PerHour(5))},
}

func (f *flood) run(t *testing.T, s *testStore, prefix string, keys int) {
	t.Helper()
	l := s.limiter(f.rule)
	for i := range keys {
		key := prefix + strconv.Itoa(i)
		if !f.debt {
			allow(t, l, key)
		} else if err := l.Debit(t.Context(), key, 8); err != nil {
			t.Fatal(err)
		}
	}
}

// Floods of different kinds, in any order, keep the bound on memory, and a new key after them
// evicts few others. The orders are the rotations of floods, forwards and backwards, so each flood
// comes first, comes last and follows each of its neighbours.
func TestStore_Take_floodsInAnyOrder(t *testing.T) {
	testkit.WithoutRace(t)
	const maxKeys, probes = 2048, 20
	const visits = 3 * 2 * maxVisits // three evictions, two tables
	for _, backwards := range []bool{false, true} {
		for first := range floods {
			order := slices.Concat(floods[first:], floods[:first])
			if backwards {
				slices.Reverse(order)
			}
			t.Run(fmt.Sprint(backwards, order[0].name), func(t *testing.T) {
				t.Parallel()
				s := newTestStore(maxKeys)
				sequence := ""
				for i := range order {
					sequence += " " + order[i].name
					order[i].run(t, s, "flood", maxKeys*5/4)
					s.checkMemory(t, "after"+sequence, i+1)
					for _, probe := range floods {
						before := s.sampled()
						probe.run(t, s, sequence, probes)
						if got := (s.sampled() - before) / probes; got > visits {
							t.Errorf("after%s: a new %s visits %d slots, expected at most %d", sequence, probe.name, got, visits)
						}
					}
				}
			})
		}
	}
}

// Idle states of one kind are evicted for states of another kind. A search visits 8 slots on
// average. If states were evicted from one end of the table to the other, the rest would be crowded
// when the table shrinks, and a search would visit 19. The mean over 16 shards deviates from that
// by 0.4.
func TestStore_Take_searchLengthAfterEvictionOfIdleStates(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const maxKeys, parts, maxSearch = 1 << 14, 10, 13
	s := newTestStore(maxKeys)
	floods[0].run(t, s, "idle", maxKeys)
	s.now += 2 * time.Hour.Microseconds()
	sum := 0.0
	for i := range parts {
		floods[2].run(t, s, fmt.Sprint("part", i), maxKeys/parts)
		sum += s.searchLength()
	}
	if got := sum / parts; got > maxSearch {
		t.Errorf("a search visits %.1f slots, expected at most %d", got, maxSearch)
	}
	if got := s.Stats().Overflowed; got > 0 {
		t.Errorf("got %d overflowed, expected 0", got)
	}
}

// In a full store of keys that are idle a second after their only event, each new key evicts an
// idle one. A search visits 23 slots on average. If states were evicted from one end of the table
// to the other, new keys would crowd ahead of that place, and a search would visit 110. The mean
// over 8 shards deviates from that by 1.1.
func TestStore_Take_searchLengthWithKeysOfOneSecond(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	const maxKeys, rounds, maxSearch = 8 * 1500, 5, 50
	s := newTestStore(maxKeys)
	l := s.limiter(core.TokenBucket("r", core.PerSecond(1)))
	sum := 0.0
	for i := range (rounds + 1) * maxKeys {
		s.now += int64(1_100_000 / maxKeys)
		allow(t, l, strconv.Itoa(i))
		if i%maxKeys == 0 && i > 0 {
			sum += s.searchLength()
		}
	}
	if got := sum / rounds; got > maxSearch {
		t.Errorf("a search visits %.1f slots, expected at most %d", got, maxSearch)
	}
}

// A quota is exhausted if all of the limit is used, and not only if all that can roll over is.
func TestStore_Take_exhaustedQuotaWithRollover(t *testing.T) {
	testkit.WithoutRace(t)
	l := core.Must(core.New(New(MaxMemory(1<<20)), core.Quota("calls", core.Monthly(1000)).Rollover(2000)))
	for i := range 100 {
		testkit.Admit(t, l, "exhausted"+strconv.Itoa(i), 1000)
	}
	for i := range 50_000 {
		testkit.Ask(t, l, strconv.Itoa(i), 1000)
	}
	for i := range 100 {
		if d := testkit.Ask(t, l, "exhausted"+strconv.Itoa(i), 1); d.Allowed {
			t.Fatalf("key %d has its limit again: %v", i, d)
		}
	}
}
