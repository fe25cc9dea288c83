package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/keyhash"
)

const (
	// maxReads bounds the goroutines that wait for a source that hangs.
	maxReads = 4096
	// maxRead bounds the time of a read that no lookup waits for.
	maxRead = time.Second
	// maxCachedKey is the length of the longest key that a cache holds. It holds the tags of longer
	// keys.
	maxCachedKey = 128
)

// A cache keeps the overrides of keys that were read from a source, also of keys without an
// override. It is safe for concurrent use.
//
// An entry is valid until the override is said to have changed, and for at most maxAge. Then the
// next lookup reads the override again. If it cannot be read, the lookup returns the old entry.
type cache struct {
	read    func(ctx context.Context, policy, tag string, old stored) (stored, error)
	report  func(error) // called once for each outage of the source
	hasher  keyhash.Hasher
	options cacheOptions

	entries *otter.Cache[cacheKey, *cached]
	start   time.Time
	// changes has counters of the changes of keys, which are selected by 16 bits of the tag. An
	// entry is valid for one value of its counter. A change therefore also invalidates an entry
	// that is being read, without a search for its key.
	changes [1 << 16]atomic.Uint32

	mu    sync.Mutex // of reads
	reads map[cacheKey]*reading

	// outages has one element, or for a Cluster several, each for a range of hash slots: one node
	// can fail while others reply.
	outages []outage

	count, stale, missing atomic.Uint64
}

type cacheOptions struct {
	size       int           // the number of entries
	timeout    time.Duration // of a lookup
	maxAge     time.Duration
	parts      int  // that can fail each for itself
	failClosed bool // a lookup without an entry is an error if the source fails
}

// A cacheKey is a key of a policy, or its tag.
type cacheKey struct {
	policy, key string
	isTag       bool
}

// A cached is an entry.
type cached struct {
	stored
	slot    uint16        // in changes
	changes uint32        // before the read
	at      time.Duration // of the read, since start
}

// A reading is a read that is under way.
type reading struct {
	outage *outage
	done   chan struct{} // closed when the fields below are set
	entry  *cached
	err    error
}

func newCache(o cacheOptions, h keyhash.Hasher) *cache {
	return &cache{
		hasher: h, options: o, start: time.Now(), reads: make(map[cacheKey]*reading), outages: make([]outage, o.parts),
		entries: otter.Must(&otter.Options[cacheKey, *cached]{
			MaximumSize: o.size,
			Executor:    func(f func()) { f() }, // the default starts goroutines
		}),
	}
}

// get returns the overrides of a key. It waits for a read until the timeout, and returns the error
// of ctx if ctx ends first.
func (c *cache) get(ctx context.Context, policy, key string) (*stored, error) {
	k := cacheKey{policy: policy, key: key}
	if len(key) > maxCachedKey {
		k.key, k.isTag = c.hasher.Tag(key), true
	}
	old, ok := c.entries.GetIfPresent(k)
	if ok && c.valid(old) {
		return &old.stored, nil
	}
	e, err := c.wait(ctx, k, old)
	switch {
	case err == nil:
		return &e.stored, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case ok:
		c.stale.Add(1)
		return &old.stored, nil
	}
	c.missing.Add(1)
	if c.options.failClosed {
		return nil, fmt.Errorf("%w: %w: the overrides of policy %s: %w", core.ErrUnavailable, core.ErrFailClosed, policy, err)
	}
	return new(stored), nil
}

func (c *cache) valid(e *cached) bool {
	return c.changes[e.slot].Load() == e.changes && time.Since(c.start)-e.at < c.options.maxAge
}

var (
	errTimeout = errors.New("no reply in time")
	errPaused  = errors.New("the source fails")
	errBusy    = fmt.Errorf("%d reads are under way", maxReads)
)

// wait reads the overrides of a key, or waits for a read that is under way, until the timeout. It
// leaves half of the time until the deadline of ctx to the decision, which could only fail
// otherwise.
func (c *cache) wait(ctx context.Context, k cacheKey, old *cached) (*cached, error) {
	timeout := c.options.timeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/2)
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for again := false; ; again = true {
		r, err := c.join(ctx, k, old)
		if err != nil {
			return nil, err
		}
		select {
		case <-r.done:
		case <-timer.C:
			c.fail(r.outage, errTimeout)
			return nil, errTimeout
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		// The first read may have begun before this call, and have missed a change of this process.
		if r.err != nil || again || c.valid(r.entry) {
			return r.entry, r.err
		}
	}
}

// join returns the read of k that is under way, or else begins one. While the source fails, it
// returns an error at once, and begins a read in every retryInterval.
func (c *cache) join(ctx context.Context, k cacheKey, old *cached) (*reading, error) {
	tag := k.key
	if !k.isTag {
		tag = c.hasher.Tag(k.key)
	}
	o := c.outageOf(tag)
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.reads[k]
	failing, retry := o.state(time.Since(c.start))
	switch {
	case r != nil && !failing:
		return r, nil
	case r != nil || failing && !retry:
		return nil, errPaused
	case len(c.reads) >= maxReads:
		return nil, errBusy
	}
	k.policy, k.key = strings.Clone(k.policy), strings.Clone(k.key) // they may be parts of a large text
	r = &reading{outage: o, done: make(chan struct{})}
	c.reads[k] = r
	go c.run(context.WithoutCancel(ctx), k, tag, old, r) // callers leave at their own deadlines
	if failing {
		return nil, errPaused
	}
	return r, nil
}

// outageOf returns the state of the part of the source that has the key with a tag.
func (c *cache) outageOf(tag string) *outage {
	return &c.outages[int(keyhash.Slot(tag))*len(c.outages)/keyhash.Slots]
}

// fail notes that a read has failed.
func (c *cache) fail(o *outage, err error) {
	if o.fail(time.Since(c.start)) {
		c.report(fmt.Errorf("weir: overrides of keys: %w", err))
	}
}

// run reads the overrides of k.
func (c *cache) run(ctx context.Context, k cacheKey, tag string, old *cached, r *reading) {
	e := &cached{slot: slotOf(tag), at: time.Since(c.start)}
	e.changes = c.changes[e.slot].Load()
	if old != nil {
		e.stored = old.stored
	}
	c.count.Add(1)
	ctx, cancel := context.WithTimeout(ctx, max(c.options.timeout, maxRead)) // go-redis repeats no command after it
	defer cancel()
	if e.stored, r.err = c.read(ctx, k.policy, tag, e.stored); r.err == nil {
		r.entry = e
		c.entries.Set(k, e)
		if time.Since(c.start)-e.at < max(c.options.timeout, failingFor) { // a later reply does not end an outage
			r.outage.replied()
		}
	} else {
		c.fail(r.outage, r.err)
	}
	c.mu.Lock()
	delete(c.reads, k)
	c.mu.Unlock()
	close(r.done)
}

// changed invalidates the entry of the key with a tag.
func (c *cache) changed(tag string) { c.changes[slotOf(tag)].Add(1) }

// allChanged invalidates all entries.
func (c *cache) allChanged() {
	for i := range c.changes {
		c.changes[i].Add(1)
	}
}

// slotOf returns a number of 16 bits that depends on the tag.
func slotOf(tag string) (slot uint16) {
	for _, b := range []byte(tag) {
		slot = slot*31 + uint16(b)
	}
	return slot
}
