// Package memstore is a [driver.Store] in the memory of this process.
//
// It needs no goroutine and no cleaning up: what has refilled counts as absent,
// and its memory is used again. Time is the monotonic clock, through
// [time.Since], so that a change of the wall clock does nothing and
// testing/synctest drives it.
//
// # Memory
//
// State takes so much memory, whatever the length of the key:
//
//	token bucket, leaky bucket   28 to 36 bytes
//	the same in debt             55 to 72 bytes
//	fixed window                 55 to 72 bytes
//	sliding log                  79 to 96 bytes, and 16 to 32 for each event in its window
//	sliding window               79 to 96 bytes, and 16 to 32 for each sub-window in use
//
// Tables grow and shrink with the state in them, in small pieces. [MaxMemory]
// bounds the whole, for any mixture of rules. When it is reached, the buckets that are used least give
// way; one that is used by half never does, so a flood of invented keys cannot
// reset it. A log that has begun to fill up stays as well, but gets coarser: it
// remembers pairs of events at the time of the later, and so is too strict. A new
// key that finds nothing but such buckets shares one of a few spillway buckets of
// its rule with other such keys: it is still limited, and more strictly than it
// should be. [Store.Stats] counts what gave way and what spilled; when either
// grows, MaxMemory is too small for the users there are.
//
// The default has room for two million token buckets, but for some 6000 exact logs
// of 500 events that are full: a log counts for what it remembers. A
// core.SlidingWindow makes the same promise in a tenth of that.
//
// # Keys are hashes
//
// The table holds 64-bit hashes, not keys. The hash is seeded with a secret of
// this process (hash/maphash), so nobody can choose two keys that meet. Should
// two meet by chance they share a bucket; among a million keys that happens with
// a probability of 3 in 100 million.
package memstore

import (
	"hash/maphash"
	"math/bits"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/argument"
)

// DefaultMaxMemory is the bound in bytes when [MaxMemory] is not given: 80 MB.
const DefaultMaxMemory = 80_000_000

const (
	// keySize is the memory for a token bucket: 36 bytes of a table, and a part of the 3 KB
	// that the smallest shard takes besides.
	keySize = 40
	// A shard with room for fewer keys would fill up by chance long before the others.
	minShard = 1024
	// Up to minShards are made for the sake of concurrency, and more only because of
	// maxShard: a table is resized under the lock of its shard, which takes 0.14 ms for
	// 8192 keys. A shard must not be too small either, because it has to hold the
	// largest log.
	minShards = 256
	maxShards = 4096
	maxShard  = 1 << 15
)

// A Store keeps the state of rules in this process. It is made by [New], is
// safe for concurrent use, and needs no closing.
type Store struct {
	driver.Namespace

	shards []shard
	seed   maphash.Seed
	start  time.Time
	origin int64 // start in Unix microseconds
	clock  func() int64
}

// Stats counts what a Store has met since it was made.
type Stats struct {
	Evicted uint64 // states that still meant something and gave way to others
	Spilled uint64 // keys that found no room of their own
}

// Stats returns the counts so far.
func (s *Store) Stats() Stats {
	var sum Stats
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sum.Evicted += sh.stats.Evicted
		sum.Spilled += sh.stats.Spilled
		sh.mu.Unlock()
	}
	return sum
}

// An Option changes what New makes. The options are the functions of this package that
// return one.
type Option interface{ argument.Option[config] }

type option = argument.OptionFunc[config]

type config struct{ maxKeys int }

// MaxMemory bounds the memory of the states in a store, in bytes; the default is
// [DefaultMaxMemory]. The package comment says what a state takes. Besides, each rule takes up
// to 2 KB for each 40 KB to 1.2 MB of n, for the states that keys share beyond the bound.
// MaxMemory panics if n is less than 1; less than 40 KB is 40 KB.
func MaxMemory(n int) Option {
	if n < 1 {
		panic("memstore: MaxMemory: n is less than 1")
	}
	return option(func(c *config) { c.maxKeys = n / keySize })
}

// New returns an empty Store. It panics if an option is nil.
func New(opts ...Option) *Store {
	c := config{maxKeys: DefaultMaxMemory / keySize}
	argument.Apply("memstore: New", &c, opts)
	n := shards(c.maxKeys)
	s := &Store{shards: make([]shard, n), seed: maphash.MakeSeed(), start: time.Now()}
	s.origin = s.start.UnixMicro()
	for i := range s.shards {
		s.shards[i].limit = max(minShard, c.maxKeys/n) * cellWeight
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

// now is Unix time in microseconds that never steps.
func (s *Store) now() int64 {
	if s.clock != nil {
		return s.clock()
	}
	return s.origin + int64(time.Since(s.start)/time.Microsecond)
}

// mix folds two words into a hash that is never 0, the mark of a free slot.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xbf58476d1ce4e5b9)
	return max(1, hi^lo)
}

func (s *Store) hash(key string) uint64 { return maphash.String(s.seed, key) }

// shardOf is where all rules of a key live.
func (s *Store) shardOf(key uint64) uint64 { return key & uint64(len(s.shards)-1) }
