package denycache

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/argument"
)

// A Store caches the denials of the Store behind it. Use [New] to make a Store. It is safe for
// concurrent use, starts no goroutine, and needs no closing.
type Store struct {
	next    driver.Store
	maxAge  int64
	now     func() int64 // nanoseconds since any fixed time; it never steps
	denials *otter.Cache[cacheKey, denials]
	flights singleflight

	// adjustments counts the calls of Adjust by the hash of their keys. A denial is cached only if
	// the count for its key has not changed during the call.
	adjustments [256]atomic.Uint64
	seed        maphash.Seed

	hits, misses, waits atomic.Uint64
}

// New returns a Store over next with an empty cache. It panics if next or an option is nil.
func New(next driver.Store, opts ...Option) *Store {
	argument.NotNil("denycache: New", "next", next)
	c := config{maxKeys: DefaultMaxKeys, maxAge: DefaultMaxAge}
	argument.Apply("denycache: New", &c, opts)
	start := time.Now()
	return &Store{
		next:    next,
		maxAge:  int64(c.maxAge),
		now:     func() int64 { return int64(time.Since(start)) },
		seed:    maphash.MakeSeed(),
		flights: singleflight{done: make(map[cacheKey]chan struct{})},
		denials: otter.Must(&otter.Options[cacheKey, denials]{
			MaximumSize: c.maxKeys,
			Executor:    func(f func()) { f() }, // the default starts goroutines
		}),
	}
}

// Declare implements [driver.Declarer]. It declares the rules on the Store behind.
func (s *Store) Declare(changes ...driver.Change) error {
	return driver.Declare(s.next, changes...)
}

// Probe implements [driver.Prober]. It probes the Store behind.
func (s *Store) Probe(ctx context.Context, charges []driver.Charge) error {
	return driver.Probe(ctx, s.next, charges)
}

// Adjust implements [driver.Store]. It calls the Store behind, and removes the cached denials. It caches the denial by
// a pause that a Debit has begun: a cached denial by another rule would hide it otherwise.
func (s *Store) Adjust(ctx context.Context, charges []driver.Charge) error {
	var few [4]part
	parts := few[:0]
	for i := range charges {
		p := part{key: keyOf(&charges[i])}
		p.adjustments = s.adjusted(p.key).Load()
		parts = append(parts, p)
	}
	sent, done := s.now(), false
	defer func() { // after an error or a panic, too: the Store may have applied charges
		for i := range parts {
			c, p := &charges[i], &parts[i]
			p.adjustments++
			s.adjusted(p.key).Add(1)
			s.denials.Invalidate(p.key)
			if done && c.Rule.Kind.Closes && c.Op == driver.Debit {
				s.learn(c, *p, sent)
			}
		}
	}()
	err := s.next.Adjust(ctx, charges)
	done = err == nil
	return err
}

// adjusted returns the count of the calls of Adjust for key and the keys that share its hash.
func (s *Store) adjusted(key cacheKey) *atomic.Uint64 {
	return &s.adjustments[maphash.String(s.seed, key.key)%uint64(len(s.adjustments))]
}

// Stats are counts of a Store since it was made.
type Stats struct {
	Hits   uint64 // decisions that were denied by a cached denial
	Misses uint64 // decisions for which the Store behind was called
	Waits  uint64 // decisions that waited for the call of another decision; also hits or misses
	Keys   int    // keys in the cache, counted for each rule, see MaxKeys; an estimate
}

// Stats returns the counts so far.
func (s *Store) Stats() Stats {
	return Stats{Hits: s.hits.Load(), Misses: s.misses.Load(), Waits: s.waits.Load(), Keys: s.denials.EstimatedSize()}
}
