package casstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A lane makes one round at a time. The requests that come meanwhile share the next one. All requests whose first charge
// has one key are in one lane, so those of this process do not compete for the rows of a hot key.
type lane struct {
	store   *Store
	mu      sync.Mutex
	waiting []*request
	running bool
}

const (
	// maxWaiting is the number of requests that wait in a lane.
	maxWaiting = 4096
	// maxRequests and maxCharges bound a round, in which a request may have more charges.
	maxRequests, maxCharges = 128, 1024
)

// send returns when r is decided, when its timeout has passed, or when ctx ends.
func (l *lane) send(ctx context.Context, r *request) error {
	if !l.join(r) {
		return l.store.failure(ctx, driver.ErrOverloaded, 0)
	}
	timer := time.NewTimer(r.timeout)
	defer timer.Stop()
	select {
	case <-r.done:
		return l.result(ctx, r)
	case <-ctx.Done():
	case <-timer.C:
	}
	switch sent, finished := l.leave(r); {
	case finished:
		return l.result(ctx, r)
	case sent:
		return l.store.failure(ctx, context.DeadlineExceeded, 0)
	}
	return l.store.failure(ctx, driver.ErrOverloaded, 0)
}

// result returns nil if r, which has finished, is decided.
func (l *lane) result(ctx context.Context, r *request) error {
	if r.outcome == decided {
		return nil
	}
	return l.store.failure(ctx, r.err, r.round)
}

// join adds r to the requests that wait, and reports whether there was room. Renewals and undos of places come first: the
// places would lapse, or stay taken.
func (l *lane) join(r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) >= maxWaiting {
		return false
	}
	at := len(l.waiting)
	if i := slices.IndexFunc(l.waiting, func(o *request) bool { return !o.urgent() }); i >= 0 && r.urgent() {
		at = i
	}
	l.waiting = slices.Insert(l.waiting, at, r)
	if !l.running {
		l.running = true
		go l.work()
	}
	return true
}

// leave notes that the caller of r leaves, and reports whether r is in a round, or has finished.
func (l *lane) leave(r *request) (sent, finished bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, r); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		return false, false
	}
	r.left = !r.finished
	return true, r.finished
}

// work makes rounds until no request waits.
func (l *lane) work() {
	for {
		round := l.next()
		if round == nil {
			return
		}
		l.store.run(round)
		l.finish(round)
	}
}

// next returns the requests of the next round, in their order.
func (l *lane) next() (round []*request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	charges, n := 0, 0
	for ; n < min(len(l.waiting), maxRequests); n++ {
		if charges += len(l.waiting[n].charges); n > 0 && charges > maxCharges {
			break
		}
	}
	if n > 0 {
		round = slices.Clone(l.waiting[:n])
	}
	l.waiting = slices.Delete(l.waiting, 0, n)
	l.running = n > 0
	return round
}

// finish tells the callers of a round its outcome. The requests that another process was in the way of come first in the
// next round.
func (l *lane) finish(round []*request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var again []*request
	for _, r := range round {
		if r.outcome == conflict && !r.left {
			again = append(again, r)
			continue
		}
		r.finished = true
		close(r.done)
		if r.left && r.outcome == decided || r.unknown && r.outcome == failed {
			l.store.free(r)
		}
	}
	l.waiting = slices.Insert(l.waiting, 0, again...)
}
