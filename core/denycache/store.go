package denycache

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/argument"
)

// A Store remembers the denials of the Store behind it. It is made by [New], is
// safe for concurrent use, and needs no closing: it has no goroutine.
type Store struct {
	next    driver.Store
	maxAge  int64
	start   time.Time
	clock   func() int64
	entries *otter.Cache[place, *entry]
	seed    maphash.Seed
	stripes [stripes]stripe

	hits, misses, waits atomic.Uint64
}

// New returns a Store over next that remembers nothing yet. It panics if next or an option
// is nil.
func New(next driver.Store, opts ...Option) *Store {
	argument.NotNil("denycache: New", "next", next)
	c := config{maxKeys: DefaultMaxKeys, maxAge: DefaultMaxAge}
	argument.Apply("denycache: New", &c, opts)
	return &Store{
		next:   next,
		maxAge: int64(c.maxAge),
		start:  time.Now(),
		seed:   maphash.MakeSeed(),
		entries: otter.Must(&otter.Options[place, *entry]{
			MaximumSize: c.maxKeys,
			Executor:    func(f func()) { f() }, // its default is a goroutine that nobody owns
		}),
	}
}

// Declare implements [driver.Declarer] if the Store behind does, and passes the rules
// on to it. Otherwise it does nothing.
func (s *Store) Declare(rules ...*driver.Compiled) error {
	if d, ok := s.next.(driver.Declarer); ok {
		return d.Declare(rules...)
	}
	return nil
}

// Probe implements [driver.Prober]: it probes the Store behind.
func (s *Store) Probe(ctx context.Context, charges []driver.Charge) error {
	return driver.Probe(ctx, s.next, charges)
}

// Stats has the counts of a Store since it was made.
type Stats struct {
	Hits   uint64 // decisions that were denied here
	Misses uint64 // decisions that the Store behind was asked for
	Waits  uint64 // decisions that waited for the answer to another
	Keys   int    // rules of keys that are remembered now; an estimate
}

// Stats returns the counts so far.
func (s *Store) Stats() Stats {
	return Stats{Hits: s.hits.Load(), Misses: s.misses.Load(), Waits: s.waits.Load(), Keys: s.entries.EstimatedSize()}
}

// now is the time in nanoseconds since any fixed origin; it never steps.
func (s *Store) now() int64 {
	if s.clock != nil {
		return s.clock()
	}
	return int64(time.Since(s.start))
}

func (s *Store) stripe(p *place) *stripe {
	return &s.stripes[maphash.String(s.seed, p.key)%stripes]
}

// Adjust implements [driver.Store]. It passes charges on, and forgets the answers about them.
func (s *Store) Adjust(ctx context.Context, charges []driver.Charge) error {
	defer func() { // it may have been done whatever is returned
		for i := range charges {
			s.forget(&charges[i])
		}
	}()
	return s.next.Adjust(ctx, charges)
}

// forget removes the entry of c, and keeps answers from before out of the next one.
func (s *Store) forget(c *driver.Charge) {
	p := placeOf(c)
	st := s.stripe(&p)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.generation.Add(1)
	s.entries.Invalidate(p)
}
