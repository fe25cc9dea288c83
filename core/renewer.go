package core

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/call"
)

// A renewer renews the places that this process holds in one Store. Its goroutine runs while there are
// any.
type renewer struct {
	store   driver.Store
	holds   holdHeap
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

// renewers are the renewers of all Stores with held places.
var renewers = renewerList{byStore: make(map[driver.Store]*renewer)}

type renewerList struct {
	mu      sync.Mutex
	byStore map[driver.Store]*renewer
	locals  []*hold // the local ones, at their indexes
	garbage []*hold // those of them whose Reservations are garbage
}

// add makes the places of h last until it is removed.
func (l *renewerList) add(h *hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.local {
		h.index = len(l.locals)
		l.locals = append(l.locals, h)
		h.watch(h.renewed)
		return
	}
	r := l.byStore[h.store]
	if r == nil {
		r = &renewer{store: h.store, wake: make(chan struct{}, 1)}
		l.byStore[h.store] = r
		go r.run()
	}
	h.schedule(h.renewed, false)
	r.push(h)
}

// end notes that the places of h are freed or have lapsed. It is called with the mutex.
func (l *renewerList) end(h *hold) {
	h.ended = true
	if h.local && h.index >= 0 {
		last := len(l.locals) - 1
		l.locals[h.index] = l.locals[last]
		l.locals[h.index].index = h.index
		l.locals[last] = nil
		l.locals, h.index = l.locals[:last], -1
	}
}

// lose tells the holders of places of key in the states of rules that these have been reset. s is a local
// Store: holders in others notice it when they renew their places.
func (l *renewerList) lose(s driver.Store, key string, rules []Rule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.locals {
		if h.store == s {
			h.keep(func(p *driver.Charge) bool {
				return p.Key != key || !slices.ContainsFunc(rules, func(r Rule) bool { return r.d.compiled.ID == p.Rule.ID })
			})
		}
	}
}

// remove ends the renewals of h.
func (l *renewerList) remove(h *hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(h)
	if h.timer != nil {
		h.timer.Stop()
	}
	if h.local || h.index < 0 {
		return // a renewal is under way
	}
	r := l.byStore[h.store]
	heap.Remove(&r.holds, h.index)
	if len(r.holds) == 0 {
		r.look()
	}
}

// sweep frees the local places of Reservations that are garbage.
func (l *renewerList) sweep() {
	l.mu.Lock()
	var abandoned []*hold
	for _, h := range l.garbage {
		if !h.ended {
			l.end(h)
			abandoned = append(abandoned, h)
		}
	}
	l.garbage = nil
	l.mu.Unlock()
	for _, h := range abandoned {
		h.free()
	}
}

// push adds h, and lets the goroutine look if h is due first. It is called with the mutex.
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
	for now := sinceStart(); r.calling < maxCalls; {
		batch := r.takeDue(now)
		if len(batch) == 0 {
			break
		}
		r.calling++
		go r.renew(batch)
	}
	switch {
	case len(r.holds) > 0 && r.calling < maxCalls:
		return r.holds[0].due - sinceStart(), false
	case len(r.holds) > 0 || r.calling > 0:
		return driver.Never, false // until a call ends
	}
	delete(renewers.byStore, r.store)
	return 0, true
}

// takeDue takes holds whose places have to be renewed in one call. If one is due, others are that will be
// due soon. takeDue drops holds whose leases have ended.
func (r *renewer) takeDue(now time.Duration) (batch []*hold) {
	places := 0
	soon := now
	for len(r.holds) > 0 && r.holds[0].due <= soon {
		h := r.holds[0]
		switch {
		case now >= h.renewed+h.lease:
			h.ended = true
			h.lose()
		case h.stopped || now >= h.ends:
			h.schedule(now, false)
			heap.Fix(&r.holds, 0)
			continue
		case len(batch) > 0 && places+len(h.places) > maxRenewals:
			return batch
		default:
			batch, places = append(batch, h), places+len(h.places)
			soon = now + h.lease/100
		}
		heap.Pop(&r.holds)
	}
	return batch
}

var errStore = errors.New("the store")

// renew renews the places of batch in one call.
func (r *renewer) renew(batch []*hold) {
	var charges []driver.Charge
	timeout := time.Duration(driver.Never)
	for _, h := range batch {
		charges = append(charges, h.places...)
		timeout = min(timeout, h.lease/3)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	sent := sinceStart()
	err := call.Recover(errStore, func() error { return r.store.Adjust(ctx, charges) })
	cancel()
	renewers.mu.Lock()
	defer renewers.mu.Unlock()
	now := sinceStart()
	for _, h := range batch {
		n := len(h.places)
		if err == nil && !h.ended {
			h.answered(sent, charges[:n])
		}
		charges = charges[n:]
		if h.ended || len(h.places) == 0 {
			h.ended = true
			continue
		}
		h.schedule(now, err != nil)
		r.push(h)
	}
	r.calling--
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
