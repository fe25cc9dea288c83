package memstore

import (
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

// A testStore is a Store with a clock that stands still until a test changes now.
type testStore struct {
	*Store
	maxKeys int
	now     int64 // Unix microseconds; at first, the beginning of an hour
}

// newTestStore returns a store with room for maxKeys token buckets, at least 1024.
func newTestStore(maxKeys int) *testStore {
	s := &testStore{New(MaxMemory(keySize * maxKeys)), max(1024, maxKeys), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()}
	s.clock = func() int64 { return s.now }
	return s
}

func (s *testStore) limiter(rules ...core.Rule) *core.Limiter {
	return core.Must(core.New(s.Store, rules...))
}

// checkMemory fails the test if the sizes are wrong, or if the store has outgrown the bound for
// so many rules with overflow buckets.
func (s *testStore) checkMemory(t *testing.T, when any, rules int) {
	t.Helper()
	// The documented bound: 36 bytes for each key that MaxMemory has room for, and for each shard the
	// free slots of a small table and the overflow buckets.
	bound := s.maxKeys*36 + len(s.shards)*(spareSlots*(24+48)+rules*16*(48+56+16)*3/2)
	var size, sum, bytes int
	for i := range s.shards {
		sh := &s.shards[i]
		size += sh.size
		sum += sumSizes(&sh.buckets) + sumSizes(&sh.items)
		bytes += tableBytes(&sh.buckets) + tableBytes(&sh.items)
		for _, slot := range sh.items.slots {
			bytes += slot.value.state.Size()
		}
	}
	if size != sum {
		t.Fatalf("%v: got a size of %d bytes, expected %d", when, size, sum)
	}
	if bytes > bound {
		t.Fatalf("%v: got %d bytes, expected at most %d", when, bytes, bound)
	}
}

func sumSizes[V any, E value[V]](t *table[V]) (size int) {
	for i := range t.slots {
		if t.slots[i].hash != 0 {
			size += E(&t.slots[i].value).size()
		}
	}
	return size
}

func tableBytes[V any](t *table[V]) int { return len(t.slots) * int(unsafe.Sizeof(slot[V]{})) }

// size returns the size of all states in bytes, and the limit on it.
func (s *testStore) size() (size, limit int) {
	for i := range s.shards {
		size += s.shards[i].size
		limit += s.shards[i].limit
	}
	return size, limit
}

// sampled returns the number of slots that evictions have visited.
func (s *testStore) sampled() (slots int) {
	for i := range s.shards {
		slots += int(s.shards[i].buckets.sampled + s.shards[i].items.sampled)
	}
	return slots
}

// searchLength returns the number of slots that a search for a new key visits on average, in the
// kind of table where it is greatest.
func (s *testStore) searchLength() float64 {
	var sums, slots [2]int
	for i := range s.shards {
		for j, free := range [][]bool{freeSlots(&s.shards[i].buckets), freeSlots(&s.shards[i].items)} {
			slots[j] += len(free)
			n := 1
			for k := 2*len(free) - 1; k >= 0; k-- { // backwards and twice, because a search wraps around
				if n++; free[k%len(free)] {
					n = 1
				}
				if k < len(free) {
					sums[j] += n
				}
			}
		}
	}
	return max(float64(sums[0])/float64(max(1, slots[0])), float64(sums[1])/float64(max(1, slots[1])))
}

func freeSlots[V any](t *table[V]) (free []bool) {
	for i := range t.slots {
		free = append(free, t.slots[i].hash == 0)
	}
	return free
}

// allow asks for one event of key and reports whether it is admitted.
func allow(t testing.TB, l *core.Limiter, key string) bool { return allowN(t, l, key, 1) }

func allowN(t testing.TB, l *core.Limiter, key string, cost int) bool {
	t.Helper()
	d := testkit.Ask(t, l, key, cost)
	return d.Allowed
}

// admitted returns how many of n events of key are admitted.
func admitted(t testing.TB, l *core.Limiter, key string, n int) (sum int) {
	t.Helper()
	for range n {
		if allow(t, l, key) {
			sum++
		}
	}
	return sum
}

// fullStore returns a store of one shard that is full of states that are not evicted, and their
// limiter.
func fullStore(t *testing.T) (*testStore, *core.Limiter) {
	t.Helper()
	s := newTestStore(1)
	fill := s.limiter(core.TokenBucket("fill", core.PerHour(2)))
	for i := 0; s.Stats().Overflowed == 0; i++ {
		allowN(t, fill, strconv.Itoa(i), 2)
	}
	return s, fill
}

// twoKeys returns two keys that share an overflow bucket of r.
func twoKeys(s *testStore, r core.Rule) (k1, k2 string) {
	overflow := func(key string) uint64 { return newHashes(s.hash(key), testkit.Compiled(r).ID).overflow }
	for i := 1; ; i++ {
		if k := strconv.Itoa(i); overflow(k) == overflow("k1") {
			return "k1", k
		}
	}
}

// inFlight compiles a rule of n events at the same time, whose places lapse after a minute.
func inFlight(t *testing.T, n int) *driver.Compiled {
	t.Helper()
	c, err := driver.Definition{Name: "places", Algorithm: driver.InFlight, Events: n, Hold: time.Minute}.Compile()
	testkit.Must(t, err)
	return c
}

func (s *testStore) take(t *testing.T, rule *driver.Compiled, key string) (v driver.Verdict, m driver.Receipt) {
	t.Helper()
	charges := []driver.Charge{{Key: key, Rule: rule, Cost: 1}}
	testkit.Must(t, s.Take(t.Context(), charges))
	return charges[0].Verdict, charges[0].Receipt
}
