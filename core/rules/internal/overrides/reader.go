package overrides

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/internal/keyhash"
)

const (
	// maxReads bounds the memory of lookups that wait for a source that hangs.
	maxReads = 4096
	// maxBatch is the number of keys in a round trip.
	maxBatch = 500
	// maxRoundTrips is the number of concurrent round trips to a part of a source that replies.
	maxRoundTrips = 4
	// maxRead bounds the time of a read that no lookup waits for.
	maxRead = time.Second

	// failingFor is the time without a reply after which a part of a source is said to fail. A single
	// slow reply is no failure.
	failingFor = 300 * time.Millisecond
	// isolated is the time after which another failure does not belong to an earlier one.
	isolated = 3 * time.Second
	// retryInterval is the time between two reads of a part that fails.
	retryInterval = 100 * time.Millisecond
)

// A reader reads keys from a source. Lookups that wait at the same moment share a round trip, so a
// flood of keys does not use up the connections of the client.
type reader struct {
	// read sets the results of all fetches, unless it returns an error.
	read    func(ctx context.Context, all []*fetch) error
	keep    func(hash uint64, e cached) // called with each result
	report  func(error)                 // called once for each outage of the source
	start   time.Time
	options Options

	// parts has one element, or for a Cluster several, each for a range of hash slots: one node can
	// fail while others reply.
	parts []part

	mu    sync.Mutex // of reads and parts
	reads map[uint64]*fetch

	sequence atomic.Int64 // of the latest change
	count    atomic.Uint64
}

// A part of a source fails for itself.
type part struct {
	waiting    []*fetch
	roundTrips int

	first, last time.Time // failures since the last reply; first is zero if there are none
	next        time.Time // the next read while p fails; zero if it does not
}

// A fetch is a read that waits or is under way, and its result.
type fetch struct {
	policy, tag string
	hash        uint64
	part        *part
	done        chan struct{} // closed when the fields below are set

	cached  // at first the old result
	hasText bool
	err     error
}

// A moment precedes the changes with a higher sequence number.
type moment struct {
	at       time.Duration // since start
	sequence int64
}

// now returns the present moment. A read that is sent later finds all changes up to it.
func (r *reader) now() moment { return moment{r.since(), r.sequence.Load()} }

func (r *reader) since() time.Duration { return time.Since(r.start) }

var (
	errFailing = errors.New("the source fails")
	errBusy    = fmt.Errorf("%d reads are under way", maxReads)
)

// join returns the read of a key that is under way, or else begins one. While the source fails, it
// returns an error at once, and begins a read in every retryInterval.
func (r *reader) join(policy, tag string, hash uint64, old *cached) (*fetch, error) {
	p := r.partOf(tag)
	r.mu.Lock()
	defer r.mu.Unlock()
	k, now, failing := r.reads[hash], time.Now(), !p.next.IsZero()
	switch {
	case k != nil && !failing:
		return k, nil
	case k != nil || failing && now.Before(p.next):
		return nil, errFailing
	case len(r.reads) >= maxReads:
		return nil, errBusy
	}
	k = &fetch{policy: policy, tag: strings.Clone(tag), hash: hash, part: p, done: make(chan struct{})}
	if old != nil {
		k.cached = *old
	}
	r.reads[hash] = k
	p.waiting = append(p.waiting, k)
	if p.roundTrips < maxRoundTrips || failing { // the others may hang
		p.roundTrips++
		go r.run(p)
	}
	if failing {
		p.next = now.Add(retryInterval)
		return nil, errFailing
	}
	return k, nil
}

// partOf returns the part of the source that has the key with a tag.
func (r *reader) partOf(tag string) *part {
	return &r.parts[int(keyhash.Slot(tag))*len(r.parts)/keyhash.Slots]
}

// fail notes that a read of p has failed. A client whose connections are all in use is no sign of an
// outage.
func (r *reader) fail(p *part, err error) {
	if errors.Is(err, redis.ErrPoolTimeout) {
		return
	}
	r.mu.Lock()
	now := time.Now()
	if p.first.IsZero() || now.Sub(p.last) > isolated {
		p.first = now
	}
	p.last = now
	began := p.next.IsZero() && now.Sub(p.first) >= failingFor
	if began {
		p.next = now.Add(retryInterval)
	}
	r.mu.Unlock()
	if began {
		r.report(fmt.Errorf("weir: overrides of keys: %w", err))
	}
}

// succeed notes that p replies.
func (r *reader) succeed(p *part) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.first, p.next = time.Time{}, time.Time{}
}

// run makes round trips while keys of p are waiting.
func (r *reader) run(p *part) {
	for {
		r.mu.Lock()
		n := min(len(p.waiting), maxBatch)
		if n == 0 {
			p.roundTrips--
			r.mu.Unlock()
			return
		}
		batch := p.waiting[:n:n]
		p.waiting = p.waiting[n:]
		r.mu.Unlock()
		r.roundTrip(p, batch)
	}
}

// roundTrip reads the keys of a batch, and ends their reads.
func (r *reader) roundTrip(p *part, batch []*fetch) {
	sent := r.now()
	r.count.Add(uint64(len(batch)))
	// Callers leave at their own deadlines. After this one, go-redis repeats no command.
	ctx, cancel := context.WithTimeout(context.Background(), max(r.options.Timeout, maxRead))
	defer cancel()
	_, err := Await(context.Background(), func() (struct{}, error) { return struct{}{}, r.read(ctx, batch) })
	good := false
	for _, k := range batch {
		if k.err = cmp.Or(err, k.err); k.err == nil {
			k.cached.read, good = sent, true
			r.keep(k.hash, k.cached)
		}
	}
	r.mu.Lock()
	for _, k := range batch {
		delete(r.reads, k.hash)
		close(k.done)
	}
	r.mu.Unlock()
	for _, k := range batch {
		if k.err != nil {
			r.fail(p, k.err)
		}
	}
	if good && r.since()-sent.at < max(r.options.Timeout, failingFor) { // a later reply does not end an outage
		r.succeed(p)
	}
}
