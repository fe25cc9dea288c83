// Package memstore is a [driver.Store] in the memory of this process.
//
//	store := memstore.New() // one for all limiters of the program
//	api := core.Must(core.New(store, core.SlidingWindow("api", core.PerMinute(100))))
//
// A Store starts no goroutine and needs no cleaning up: a state that has expired counts as absent,
// and its memory is reused. A Store reads the monotonic clock with [time.Since], so a change of the
// wall clock has no effect, except on the periods of quotas, and testing/synctest controls the time. The option [Clock] replaces it.
//
// # Memory
//
// A state takes the following memory, whatever the length of the key:
//
//	token bucket, leaky bucket   28 to 36 bytes
//	the same in debt             55 to 72 bytes
//	fixed window, quota, pause   55 to 72 bytes
//	sliding log                  79 to 96 bytes, and 16 to 32 for each event in its window
//	sliding window               79 to 96 bytes, and 16 to 32 for each sub-window in use
//	in flight                    79 to 96 bytes, and 16 to 32 for each place, while a place is taken
//
// Tables grow and shrink with their states, in small steps. [MaxMemory] bounds the memory of all
// states, for any mixture of rules. A full store evicts the states with the lowest fill ratio,
// which is the used part of the capacity. It never evicts a state that is at least half used, or a
// log of 3 or more events: an attacker cannot reset an exhausted limit by flooding the store with
// new keys. A log that finds no memory for another event becomes coarser: two events get the time
// of the later event, so the log denies more than it should. Places of core.InFlight are the exception:
// they are few, because each belongs to an event that holds more memory elsewhere, so a full store takes
// them beyond MaxMemory. A new key that finds no memory shares
// one of a few overflow buckets of its rule with other such keys: it is limited, but more strictly
// than it should be. [Store.Stats] counts evictions and overflow buckets. If a count grows,
// MaxMemory is too small for the number of users.
//
// The default is enough for two million token buckets, or for some 6000 sliding logs with 500
// events each. A core.SlidingWindow takes a tenth of that and, like a log, never exceeds the limit.
//
// # Keys are hashes
//
// Tables hold 64-bit hashes, not keys. The hash is seeded with a secret of this process
// (hash/maphash), so a client cannot choose two keys with the same hash. Keys that have the same
// hash by chance share a state; among a million keys, the probability of that is 3 in 100 million.
package memstore

import (
	"hash/maphash"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/argument"
)

const (
	// A shard with a limit of fewer keys would fill up by chance long before other shards.
	minShard = 1024
	// To reduce contention, a store has as many shards as its size allows, up to minShards. It has
	// more only if a shard would otherwise hold more than maxShard keys: a table is resized under
	// the lock of its shard, in 0.14 ms for 8192 keys. The largest log must also fit into a shard.
	minShards = 256
	maxShards = 4096
	maxShard  = 1 << 15
)

// A Store keeps the states of rules in this process. Use [New] to make a Store. It is safe for
// concurrent use, and needs no closing.
type Store struct {
	driver.Namespace

	shards []shard
	seed   maphash.Seed
	start  time.Time
	origin int64 // start in Unix microseconds
	clock  func() int64
}

// New returns an empty Store. It panics if an option is nil.
func New(opts ...Option) *Store {
	c := config{maxKeys: DefaultMaxMemory / keySize}
	argument.Apply("memstore: New", &c, opts)
	n := shards(c.maxKeys)
	s := &Store{shards: make([]shard, n), seed: maphash.MakeSeed(), start: time.Now()}
	s.origin = s.start.UnixMicro()
	if c.clock != nil {
		s.clock = func() int64 { return max(1, c.clock().UnixMicro()) } // states have positive times
	}
	for i := range s.shards {
		s.shards[i].limit, s.shards[i].clocked = max(minShard, c.maxKeys/n)*bucketSize, c.clock != nil
	}
	return s
}

// shards returns the number of shards for maxKeys, a power of two.
func shards(maxKeys int) int {
	n := 1
	for maxKeys/(n*2) >= minShard && (n < minShards || n < maxShards && maxKeys/n > maxShard) {
		n *= 2
	}
	return n
}

// Stats are counts of a Store since it was made, and its size now.
type Stats struct {
	States     int    // in memory, including those that have expired and not been removed yet
	Memory     int    // the bytes of these states that count towards MaxMemory
	Evicted    uint64 // states that were in use and were evicted
	Overflowed uint64 // overflow buckets that came into use, each for a new key that found no memory
}

// Stats returns the counts so far.
func (s *Store) Stats() Stats {
	var sum Stats
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sum.States += sh.buckets.used + sh.items.used
		sum.Memory += sh.size
		sum.Evicted += sh.stats.Evicted
		sum.Overflowed += sh.stats.Overflowed
		sh.mu.Unlock()
	}
	return sum
}

// Describe returns the [driver.Description] of s: the States are in this process, and without the option [Clock]
// its clock is steady.
func (s *Store) Describe() driver.Description {
	if s.clock == nil {
		return driver.Description{Local: true, Steady: true}
	}
	return driver.Description{Local: true, Clock: func() time.Time { return time.UnixMicro(s.clock()) }}
}

// now returns Unix time in microseconds. It never steps back.
func (s *Store) now() int64 {
	if s.clock != nil {
		return s.clock()
	}
	return s.origin + int64(time.Since(s.start)/time.Microsecond)
}

// wall returns the time of the wall clock for a quota, whose periods are those of the calendar, and 0 for
// other charges.
func (s *Store) wall(c *driver.Charge) int64 {
	if !c.Rule.Kind.Calendar {
		return 0
	}
	return s.wallTime()
}

func (s *Store) wallTime() int64 {
	if s.clock != nil {
		return 0
	}
	return time.Now().UnixMicro()
}

func (s *Store) hash(key string) uint64 { return maphash.String(s.seed, key) }

// shardOf returns the index of the shard that holds all states of a key.
func (s *Store) shardOf(key uint64) uint64 { return key & uint64(len(s.shards)-1) }
