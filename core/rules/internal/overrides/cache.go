package overrides

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/keyhash"
)

// A cache answers lookups of the overrides and blocks of keys. It is safe for concurrent use.
//
// A key that is in none of the indexes has no override, and a key in the index of blocks is
// blocked, if the indexes were confirmed less than MaxAge ago and after the last change of the key.
// Else the cache reads the key from the source, and keeps the result.
//
// A result is valid for at most MaxAge, and until the key is said to have changed. Then the next
// lookup reads the key again. If it cannot be read, the lookup uses the newest of the old result and
// the indexes.
type cache struct {
	reader
	hasher  keyhash.Hasher
	blocked *Content // of all blocks
	indexes atomic.Pointer[indexes]

	// changes has the sequence number of the latest change in each group of keys, which is selected
	// by 16 bits of the hash. A change therefore also invalidates a result that is being read,
	// without a search for its key.
	changes [1 << 16]atomic.Int64

	// with and without have the results of keys with an override or a block, and of other keys. A
	// flood of other keys evicts no override.
	with, without *otter.Cache[uint64, *cached]

	stale, missing atomic.Uint64
}

// Options configure a cache: see the options of a rules.RedisSource.
type Options struct {
	MaxKeys    int
	Timeout    time.Duration // of a lookup
	MaxAge     time.Duration
	FailClosed bool // a lookup is an error if the source fails and nothing is known about the key
	parts      int  // that can fail each for itself
}

// A cached is the result of a read.
type cached struct {
	stored
	read moment // before the read
}

func newCache(o Options, h keyhash.Hasher) *cache {
	values := func() *otter.Cache[uint64, *cached] {
		return otter.Must(&otter.Options[uint64, *cached]{
			MaximumSize: o.MaxKeys,
			Executor:    func(f func()) { f() }, // the default starts goroutines
		})
	}
	c := &cache{hasher: h, blocked: &Content{Blocked: true}, with: values(), without: values()}
	c.indexes.Store(&indexes{confirmed: unconfirmed, counts: counts{-1, -1}})
	c.reader = reader{start: time.Now(), options: o, parts: make([]part, o.parts), reads: make(map[uint64]*fetch), keep: c.keep}
	return c
}

// Get returns the override of a key that applies now, for a decision. It waits for a read until the
// timeout, and returns the error of ctx if ctx ends first.
func (c *cache) Get(ctx context.Context, policy, key string) (Override, error) {
	tag := c.hasher.Tag(key)
	hash := hashOfMember(policy, tag)
	if x := c.indexes.Load(); x.blocks != nil && c.valid(hash, x.confirmed) {
		if b := c.block(x.blocks.end(hash)); b.InForce() {
			return b, nil
		}
		if x.overrides != nil && !x.overrides.has(hash) {
			return Override{}, nil
		}
	}
	old := c.cached(hash)
	if old != nil && c.valid(hash, old.read) {
		return old.current(), nil
	}
	e, err := c.wait(ctx, policy, tag, hash, old)
	switch {
	case err == nil:
		return e.current(), nil
	case ctx.Err() != nil:
		return Override{}, ctx.Err()
	}
	if s, ok := c.outdated(hash, old); ok {
		c.stale.Add(1)
		return s.current(), nil
	}
	c.missing.Add(1)
	if c.options.FailClosed {
		return Override{}, fmt.Errorf("%w: %w: the overrides of policy %s: %w", core.ErrUnavailable, core.ErrFailClosed, policy, err)
	}
	return Override{}, nil
}

// Has reports whether Redis is known to have an override or a block of a key.
func (c *cache) Has(policy, key string) bool {
	x, hash := c.indexes.Load(), hashOfMember(policy, c.hasher.Tag(key))
	return x.overrides.has(hash) || x.blocks.has(hash)
}

// outdated returns the newest knowledge about a key, of the indexes and of an old result, which may be
// nil. It reports false if there is none.
func (c *cache) outdated(hash uint64, old *cached) (s stored, ok bool) {
	x := c.indexes.Load()
	if old != nil {
		if s = old.stored; x.confirmed.at < old.read.at {
			return s, true
		}
	}
	if x.blocks != nil {
		s.block = c.block(x.blocks.end(hash))
	}
	none := x.overrides != nil && !x.overrides.has(hash)
	if none {
		s.override = Override{}
	}
	return s, old != nil || s.block.InForce() || none && x.blocks != nil
}

// cached returns the result of a key, or nil.
func (c *cache) cached(hash uint64) *cached {
	e, ok := c.with.GetIfPresent(hash)
	if !ok {
		e, _ = c.without.GetIfPresent(hash)
	}
	return e
}

// block returns a block with an end of an index, or none if the end is 0.
func (c *cache) block(end int64) Override {
	switch end {
	case 0:
		return Override{}
	case forever:
		return Override{Content: c.blocked}
	}
	return Override{Content: c.blocked, Until: time.UnixMilli(end)}
}

// valid reports whether knowledge about a key is to be used, if it was read at a moment.
func (c *cache) valid(hash uint64, m moment) bool {
	return m.sequence >= c.changes[uint16(hash)].Load() && c.since()-m.at < c.options.MaxAge
}

// wait reads the overrides of a key, or waits for a read that is under way, until the timeout. It
// leaves half of the time until the deadline of ctx to the decision, which could only fail
// otherwise.
func (c *cache) wait(ctx context.Context, policy, tag string, hash uint64, old *cached) (e cached, err error) {
	timeout := c.options.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/2)
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for again := false; ; again = true {
		r, err := c.join(policy, tag, hash, old)
		if err != nil {
			return e, err
		}
		select {
		case <-r.done:
		case <-timer.C:
			c.fail(r.part, errTimeout)
			return e, errTimeout
		case <-ctx.Done():
			return e, ctx.Err()
		}
		// The first read may have begun before this call, and have missed a change of this process.
		if r.err != nil || again || c.valid(hash, r.cached.read) {
			return r.cached, r.err
		}
	}
}

var errTimeout = errors.New("no reply in time")

// keep makes e the result of a key.
func (c *cache) keep(hash uint64, e cached) {
	to, other := c.without, c.with
	if e.override.Content != nil || e.block.Content != nil {
		to, other = other, to
	}
	to.Set(hash, &e)
	other.Invalidate(hash)
}

// written makes a write of this process known, for the case that the key cannot be read afterwards.
// change applies the write to the knowledge before it.
func (c *cache) written(hash uint64, change func(*stored)) {
	s, ok := c.outdated(hash, c.cached(hash))
	change(&s)
	if ok || s.current().Content != nil {
		c.keep(hash, cached{stored: s, read: moment{c.since(), unconfirmed.sequence}})
	}
}

// changed invalidates the knowledge about a key.
func (c *cache) changed(hash uint64) { c.raise(uint16(hash), c.sequence.Add(1)) }

// allChanged invalidates the knowledge about all keys.
func (c *cache) allChanged() {
	number := c.sequence.Add(1)
	for group := range len(c.changes) {
		c.raise(uint16(group), number)
	}
}

// raise sets the sequence number of the latest change in a group, unless it is higher.
func (c *cache) raise(group uint16, number int64) {
	last := &c.changes[group]
	for before := last.Load(); before < number && !last.CompareAndSwap(before, number); before = last.Load() {
	}
}
