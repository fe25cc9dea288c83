package hold

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
	store driver.Store
	// healthy has the places whose last renewal had an answer. The others are renewed apart, and one by one while
	// their calls fail, so that a part of the Store that is down, as a node of a Cluster, takes no places of
	// other parts with it.
	healthy, failing renewals
	wake             chan struct{} // receives a value when the goroutine has to look again
}

// renewals are places that are renewed in calls of up to batch places, of which most are under way.
type renewals struct {
	holds       holdHeap // without those in calls
	calling     int      // calls under way
	batch, most int
}

const (
	// maxRenewals is the largest number of charges of a call. More would make a call longer in which one place fails.
	maxRenewals = 16
	// maxCalls is the largest number of calls under way about healthy places. At a distance of 20 ms, they
	// renew 6400 places a second.
	maxCalls = 8
	// maxFailing is the largest number of other calls under way.
	maxFailing = 8
)

func newRenewer(s driver.Store) *renewer {
	return &renewer{
		store: s, healthy: renewals{batch: maxRenewals, most: maxCalls}, failing: renewals{batch: 1, most: maxFailing},
		wake: make(chan struct{}, 1),
	}
}

// of returns the renewals that h belongs to.
func (r *renewer) of(h *Hold) *renewals {
	if h.failed {
		return &r.failing
	}
	return &r.healthy
}

// push adds h, and lets the goroutine look if h is due first.
func (r *renewer) push(h *Hold) {
	if heap.Push(&r.of(h).holds, h); h.index == 0 {
		r.look()
	}
}

// remove removes h, which is in no call.
func (r *renewer) remove(h *Hold) {
	heap.Remove(&r.of(h).holds, h.index)
	if len(r.healthy.holds)+len(r.failing.holds) == 0 {
		r.look()
	}
}

// reschedule sets when h, which is in no call, is due.
func (r *renewer) reschedule(h *Hold, now time.Duration) {
	h.schedule(now)
	heap.Fix(&r.of(h).holds, h.index)
	r.look()
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
	now := Now()
	wait, done = driver.Never, true
	for _, q := range []*renewals{&r.healthy, &r.failing} {
		for q.calling < q.most {
			batch := q.takeDue(now)
			if len(batch) == 0 {
				break
			}
			q.calling++
			charges := make([]driver.Charge, len(batch))
			for i, h := range batch {
				charges[i], h.calling = h.renew, true
			}
			go r.renew(q, batch, charges, now)
		}
		switch {
		case q.calling == q.most:
			wait = min(wait, q.dropLapsed(now))
		case len(q.holds) > 0:
			wait = min(wait, q.holds[0].due-now)
		}
		done = done && q.calling == 0 && len(q.holds) == 0
	}
	if done {
		delete(renewers.byStore, r.store)
	}
	return wait, done // without a wait, until a call ends
}

// takeDue takes places that have to be renewed, for one call: one place of a key and rule at most, see
// [driver.Store]. If one is due, others are that will be due soon. It drops places whose holds have ended.
func (r *renewals) takeDue(now time.Duration) (batch []*Hold) {
	var others []*Hold // whose key and rule are in batch
	defer func() {
		for _, h := range others {
			heap.Push(&r.holds, h)
		}
	}()
	for soon := now; len(r.holds) > 0 && len(batch) < r.batch && r.holds[0].due <= soon; {
		h := r.holds[0]
		switch ending := !h.frees && (h.stopped || now >= h.ends); {
		case now >= h.end():
			heap.Pop(&r.holds)
			h.lapsed()
		case ending && h.due == h.end(): // soon
			return batch
		case ending:
			h.schedule(now)
			heap.Fix(&r.holds, 0)
		case slices.ContainsFunc(batch, h.sharesState):
			if others = append(others, heap.Pop(&r.holds).(*Hold)); len(others) == maxRenewals {
				return batch
			}
		default:
			batch, soon = append(batch, h), now+h.length()/24
			heap.Pop(&r.holds)
		}
	}
	return batch
}

// dropLapsed drops the places whose holds have ended, while no call can begin. It returns the time until
// the next hold ends.
func (r *renewals) dropLapsed(now time.Duration) time.Duration {
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

// renew renews the places of batch, which are of q, or frees them, in one call, which ends before their holds.
func (r *renewer) renew(q *renewals, batch []*Hold, charges []driver.Charge, now time.Duration) {
	timeout := time.Duration(driver.Never)
	for _, h := range batch {
		timeout = min(timeout, h.length()/3, h.end()-now)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	sent := Now()
	returned, err := call.Detached(ctx, errStore, nil, func() ([]driver.Charge, error) {
		return charges, r.store.Adjust(ctx, charges)
	})
	cancel()
	renewers.mu.Lock()
	defer renewers.mu.Unlock()
	q.calling--
	now = Now()
	all := true
	for i, h := range batch {
		h.calling = false
		applied := returned != nil && (err == nil || returned[i].Verdict.Done)
		switch {
		case h.ended && !h.frees:
			continue
		case h.frees && applied && returned[i].Op == driver.Undo:
			h.frees = false
			continue
		case h.frees: // the Undo has failed, or the call was a renewal
		case applied && !returned[i].Verdict.Found:
			h.lapsed()
			continue
		case applied:
			h.renewed = sent
		}
		h.failed, all = !applied, all && applied
		h.schedule(now)
		r.push(h)
	}
	if q == &r.failing {
		if q.batch = 1; all {
			q.batch = min(2*len(batch), maxRenewals) // the outage has ended, perhaps
		}
	}
	r.look()
}

// A holdHeap is a heap of holds, the one that is due first at its top.
type holdHeap []*Hold

func (q holdHeap) Len() int           { return len(q) }
func (q holdHeap) Less(i, j int) bool { return q[i].due < q[j].due }

func (q holdHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements [heap.Interface].
func (q *holdHeap) Push(x any) {
	h := x.(*Hold)
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
