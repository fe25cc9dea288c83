package core

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/call"
)

// A renewer renews the places that this process holds in one Store. Its goroutine runs while there are
// any. The mutex of renewers guards it.
type renewer struct {
	store   driver.Store
	holds   holdHeap      // without those in calls
	calling int           // calls under way
	wake    chan struct{} // receives a value when the goroutine has to look again
}

const (
	// maxRenewals is the largest number of charges of a call, as in redisstore.
	maxRenewals = 16
	// maxCalls is the largest number of calls under way. At a distance of 20 ms, they renew 6400 places a
	// second.
	maxCalls = 8
)

// push adds h, and lets the goroutine look if h is due first.
func (r *renewer) push(h *hold) {
	if heap.Push(&r.holds, h); h.index == 0 {
		r.look()
	}
}

func (r *renewer) look() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run renews the places of r until there are none.
func (r *renewer) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait, done := r.renewDue()
		if done {
			return
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-r.wake:
		}
	}
}

// renewDue starts calls for the places that are due. It returns the time until others are, or that there
// are none, and r is not used any more.
func (r *renewer) renewDue() (wait time.Duration, done bool) {
	renewers.mu.Lock()
	defer renewers.mu.Unlock()
	now := sinceStart()
	for r.calling < maxCalls {
		batch := r.takeDue(now)
		if len(batch) == 0 {
			break
		}
		r.calling++
		go r.renew(batch, now)
	}
	switch {
	case r.calling == maxCalls:
		return r.dropLapsed(now), false
	case len(r.holds) > 0:
		return r.holds[0].due - now, false
	case r.calling > 0:
		return driver.Never, false // until a call ends
	}
	delete(renewers.byStore, r.store)
	return 0, true
}

// takeDue takes places that have to be renewed, for one call: one place of a key and rule at most, see
// [driver.Store]. If one is due, others are that will be due soon. It drops places whose leases have ended.
func (r *renewer) takeDue(now time.Duration) (batch []*hold) {
	var others []*hold // whose key and rule are in batch
	defer func() {
		for _, h := range others {
			heap.Push(&r.holds, h)
		}
	}()
	for soon := now; len(r.holds) > 0 && len(batch) < maxRenewals && r.holds[0].due <= soon; {
		h := r.holds[0]
		switch ending := h.stopped || now >= h.ends; {
		case now >= h.end():
			heap.Pop(&r.holds)
			h.lapsed()
		case ending && h.due == h.end(): // soon
			return batch
		case ending:
			h.schedule(now, false)
			heap.Fix(&r.holds, 0)
		case slices.ContainsFunc(batch, h.sharesState):
			if others = append(others, heap.Pop(&r.holds).(*hold)); len(others) == maxRenewals {
				return batch
			}
		default:
			batch, soon = append(batch, h), now+h.lease()/24
			heap.Pop(&r.holds)
		}
	}
	return batch
}

// dropLapsed drops the places whose leases have ended, while no call can begin. It returns the time until
// the next lease ends.
func (r *renewer) dropLapsed(now time.Duration) time.Duration {
	wait, kept := time.Duration(driver.Never), r.holds[:0]
	for _, h := range r.holds {
		if left := h.end() - now; left > 0 {
			wait, h.index, kept = min(wait, left), len(kept), append(kept, h)
		} else {
			h.index = -1
			h.lapsed()
		}
	}
	clear(r.holds[len(kept):])
	r.holds = kept
	heap.Init(&r.holds)
	return wait
}

var errStore = errors.New("the store")

// renew renews the places of batch in one call, which ends before their leases.
func (r *renewer) renew(batch []*hold, now time.Duration) {
	charges := make([]driver.Charge, len(batch))
	timeout := time.Duration(driver.Never)
	for i, h := range batch {
		charges[i] = h.renew
		timeout = min(timeout, h.lease()/3, h.end()-now)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	sent := sinceStart()
	_, err := call.Detached(ctx, errStore, nil, func() (struct{}, error) {
		return struct{}{}, r.store.Adjust(ctx, charges)
	})
	cancel()
	renewers.mu.Lock()
	defer renewers.mu.Unlock()
	r.calling--
	now = sinceStart()
	for i, h := range batch {
		switch {
		case h.ended:
			continue
		case err == nil && !charges[i].Verdict.Found:
			h.lapsed()
			continue
		case err == nil:
			h.renewed = sent
		}
		h.schedule(now, err != nil)
		r.push(h)
	}
	r.look()
}

// A holdHeap is a heap of holds, the one that is due first at its top.
type holdHeap []*hold

func (q holdHeap) Len() int           { return len(q) }
func (q holdHeap) Less(i, j int) bool { return q[i].due < q[j].due }

func (q holdHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements [heap.Interface].
func (q *holdHeap) Push(x any) {
	h := x.(*hold)
	h.index = len(*q)
	*q = append(*q, h)
}

// Pop implements [heap.Interface].
func (q *holdHeap) Pop() any {
	last := len(*q) - 1
	h := (*q)[last]
	(*q)[last] = nil
	*q, h.index = (*q)[:last], -1
	return h
}
