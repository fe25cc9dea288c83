package rules

import (
	"sync"
	"time"
)

const (
	// failingFor is the time without a reply after which a source is said to fail. A single slow
	// reply is no failure.
	failingFor = 300 * time.Millisecond
	// isolated is the time after which another failure does not belong to an earlier one.
	isolated = 3 * time.Second
	// retryInterval is the time between two reads while the source fails.
	retryInterval = 100 * time.Millisecond
)

// An outage tells whether a source, or a part of it, fails. Times are those since any fixed time.
// It is safe for concurrent use.
type outage struct {
	mu          sync.Mutex
	first, last time.Duration // failures since the last reply
	failed      bool          // there is a failure since the last reply
	failing     bool
	next        time.Duration // the next read while the source fails
}

// state reports whether the source fails, and whether it is time for another read nevertheless, if
// the caller can begin one.
func (o *outage) state(now time.Duration, can bool) (failing, retry bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if retry = o.failing && can && now >= o.next; retry {
		o.next = now + retryInterval
	}
	return o.failing, retry
}

// fail notes that a read has failed. It reports whether the source fails since now.
func (o *outage) fail(now time.Duration) (began bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.failed || now-o.last > isolated {
		o.failed, o.first = true, now
	}
	o.last = now
	began = !o.failing && now-o.first >= failingFor
	if began {
		o.failing, o.next = true, now+retryInterval
	}
	return began
}

// replied notes that the source replies.
func (o *outage) replied() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed, o.failing = false, false
}
