// Package memstore is a [core.Store] in the memory of this process.
//
// It needs no goroutine and no cleaning up: what has refilled counts as absent,
// and its memory is used again. Time is the monotonic clock, through
// [time.Since], so that a change of the wall clock does nothing and
// testing/synctest drives it.
//
// # Memory
//
// A token bucket takes 28 to 35 bytes, whatever the length of its key; a sliding
// log takes 60 and another 16 to 32 for every event in its window. [MaxKeys]
// bounds the whole. When it is reached, the buckets that are used least give
// way; one that is used by half never does, so a flood of invented keys cannot
// reset it. A log that has begun to fill up stays as well, but gets coarser: it
// remembers pairs of events at the time of the later, and so is too strict. A new
// key that finds nothing but such buckets shares one of a few spillway buckets of
// its rule with other such keys: it is still limited, and more strictly than it
// should be. [Store.Stats] counts what gave way and what spilled; when either
// grows, MaxKeys is too small for the users there are.
//
// The default has room for two million token buckets, but for some 6000 exact logs
// of 500 events that are full: a log counts for what it remembers. A
// [core.SlidingWindow] makes the same promise in a tenth of that.
//
// # Keys are hashes
//
// The table holds 64-bit hashes, not keys. The hash is seeded with a secret of
// this process (hash/maphash), so nobody can choose two keys that meet. Should
// two meet by chance they share a bucket; among a million keys that happens with
// a probability of 3 in 100 million.
package memstore

import (
	"context"
	"hash/maphash"
	"math/bits"
	"time"

	"github.com/weir-go/weir/core"
)

// DefaultMaxKeys is the bound when [MaxKeys] is not given. That many token
// buckets take at most 75 MB.
const DefaultMaxKeys = 1 << 21

const (
	maxShards = 256
	// A smaller shard would fill up by chance long before the others.
	minShard = 1024
)

// A Store keeps the state of rules in this process. It is made by [New], is
// safe for concurrent use, and needs no closing.
type Store struct {
	core.Namespace

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

// An Option changes what New makes.
type Option func(*config)

type config struct{ maxKeys int }

// MaxKeys bounds the number of token buckets that are kept, [DefaultMaxKeys] by
// default. Every rule of a key counts as one. A sliding log counts as two and
// another two for every three events that it has room for. MaxKeys panics if n
// is less than 1; less than 1024 is 1024.
func MaxKeys(n int) Option {
	if n < 1 {
		panic("memstore: MaxKeys: n is less than 1")
	}
	return func(c *config) { c.maxKeys = n }
}

// New returns an empty Store.
func New(opts ...Option) *Store {
	c := config{maxKeys: DefaultMaxKeys}
	for _, o := range opts {
		o(&c)
	}
	shards := 1
	for shards < maxShards && c.maxKeys/(shards*2) >= minShard {
		shards *= 2
	}
	s := &Store{shards: make([]shard, shards), seed: maphash.MakeSeed(), start: time.Now()}
	s.origin = s.start.UnixMicro()
	for i := range s.shards {
		s.shards[i].limit = max(minShard, c.maxKeys/shards) * cellWeight
	}
	return s
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

// Take implements [core.Store]. Its only errors are [core.ErrInvalidCharge] and
// those of a ctx that is done already.
func (s *Store) Take(ctx context.Context, charges []core.Charge) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := core.CheckCharges(charges); err != nil {
		return err
	}
	if len(charges) == 1 {
		s.takeOne(&charges[0])
		return nil
	}
	var room [4]step
	steps := room[:]
	if len(charges) > len(room) {
		steps = make([]step, len(charges))
	}
	steps = steps[:len(charges)]
	for i := range charges {
		if i > 0 && charges[i].Key == charges[i-1].Key {
			steps[i].aim(s, &charges[i], steps[i-1].key)
		} else {
			steps[i].aim(s, &charges[i], s.hash(charges[i].Key))
		}
	}
	s.decideLocked(charges, steps)
	for i := range steps {
		steps[i].answer(&charges[i])
	}
	return nil
}
