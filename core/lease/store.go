package lease

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/argument"
)

// A Store takes tokens from another Store in bundles and spends them in this process. Use [New] to
// make a Store, and [Store.Close] to end it. A Store is safe for concurrent use.
type Store struct {
	next   driver.Store
	config config
	clock  func() int64 // nanoseconds of a clock that never steps
	seed   maphash.Seed
	shards []shard

	calls      atomic.Uint64
	bans       atomic.Uint64  // calls of Adjust about bans that have begun or ended
	fetches    sync.WaitGroup // under way
	prefetches atomic.Int64   // fetches without a waiter that are under way
}

const (
	maxShards = 64
	// minShard is the smallest limit of accounts of a shard. With a smaller limit, one shard would
	// fill up by chance long before the other shards.
	minShard = 64
)

// New returns a Store that wraps next. [Store.Close] does not close next. New panics if next or an
// option is nil.
func New(next driver.Store, opts ...Option) *Store {
	argument.NotNil("lease: New", "next", next)
	c := config{maxKeys: DefaultMaxKeys, lifetime: DefaultLifetime, timeout: DefaultTimeout}
	argument.Apply("lease: New", &c, opts)
	start := time.Now()
	s := &Store{
		next: next, config: c, seed: maphash.MakeSeed(),
		clock: func() int64 { return int64(time.Since(start)) },
	}
	n := 1
	for n < maxShards && c.maxKeys/(2*n) >= minShard {
		n *= 2
	}
	s.shards = make([]shard, n)
	for i := range s.shards {
		s.shards[i].accounts, s.shards[i].open = make(map[uint64]*account), make(map[uint64]int64)
		s.shards[i].limit = (c.maxKeys + n - 1) / n
	}
	return s
}

// Declare implements [driver.Declarer]. It declares the rules on the Store behind.
func (s *Store) Declare(changes ...driver.Change) error {
	return driver.Declare(s.next, changes...)
}

// Probe implements [driver.Prober]. It probes the Store behind.
func (s *Store) Probe(ctx context.Context, charges []driver.Charge) error {
	return driver.Probe(ctx, s.next, charges)
}

// Stats are counts of a Store since it was made.
type Stats struct {
	Hits   uint64 // charges that were decided without a call
	Calls  uint64 // calls of the Store behind, for decisions and for bundles
	Leased uint64 // tokens taken in bundles, beyond the tokens for waiting callers
	Keys   int    // combinations of a key, a rule and a plan in memory now
	Held   uint64 // tokens held now
}

// Stats returns the counts so far. Leased tokens that are no longer held were spent, have expired,
// or were dropped (Close, Reset, MaxKeys).
func (s *Store) Stats() Stats {
	sum := Stats{Calls: s.calls.Load()}
	for i := range s.shards {
		sh := &s.shards[i]
		now := sh.lock(s)
		sum.Hits += sh.hits
		sum.Leased += sh.leased
		sum.Keys += sh.size
		for a := range sh.all {
			sum.Held += uint64(a.held(now))
		}
		sh.mu.Unlock()
	}
	return sum
}

// Close drops the held tokens. From then on every decision is a call of the Store behind, which
// stays open. Close makes no call itself. It waits, for at most [Timeout], until the running calls
// for several callers or for a bundle have ended. If they last longer, Close returns an error that
// wraps [context.DeadlineExceeded]. Close may be called again.
func (s *Store) Close() error {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.closed = true
		for a := range sh.all {
			sh.evict(a)
		}
		sh.mu.Unlock()
	}
	done := make(chan struct{})
	go func() {
		s.fetches.Wait()
		close(done)
	}()
	timer := time.NewTimer(s.config.timeout)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return fmt.Errorf("lease: Close: calls are under way after %v: %w", s.config.timeout, context.DeadlineExceeded)
	}
}

// shard returns the shard for the accounts of c, and their hash. Accounts of different rules and keys
// may have the same hash.
func (s *Store) shard(c *driver.Charge) (sh *shard, hash uint64) {
	hash = maphash.String(s.seed, c.Key)
	return &s.shards[hash&uint64(len(s.shards)-1)], hash ^ c.Rule.ID
}
