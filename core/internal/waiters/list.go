// Package waiters keeps the callers that wait for an admission in the order of their arrival.
package waiters

import (
	"math"
	"slices"
	"sync"
	"time"
)

// A List has the waiters of each key, in the order of arrival. V identifies limits. The zero value is empty. It is safe
// for concurrent use.
type List[V comparable] struct {
	mu    sync.Mutex
	byKey map[string]*line[V]
	n     int // the number of waiters of all keys
}

// A line has the waiters of one key.
type line[V comparable] struct {
	Queue
	waiters []*Waiter[V]
	marked  bool       // the Store may have the queue as one that waits
	next    *Waiter[V] // the second waiter when the first one asked, or nil
}

// A Waiter is one call that waits. Only the first Waiter of a key calls the Store. The others wait.
type Waiter[V comparable] struct {
	First chan struct{} // closed when this Waiter is the first of its key
	Known bool          // when First is closed: the Store knows that this Waiter is the first
	Queue *Queue        // of its key; nil of a Waiter that did not join
	N     int           // the cost of its event
	view  V             // the limits when it was called
	cost  int           // N, or 0 while the Store may have counted it; guarded by the mutex of List
	since time.Time
}

// Join adds a Waiter after all others of key, or returns nil if there are most.
func (l *List[V]) Join(key string, n int, v V, most int) *Waiter[V] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n == most {
		return nil
	}
	if l.byKey == nil {
		l.byKey = make(map[string]*line[V])
	}
	all := l.byKey[key]
	if all == nil {
		all = new(line[V])
		all.open()
		l.byKey[key] = all
	}
	w := &Waiter[V]{First: make(chan struct{}), Queue: &all.Queue, N: n, view: v, cost: n, since: time.Now()}
	if len(all.waiters) == 0 {
		close(w.First)
	}
	all.waiters = append(all.waiters, w)
	l.n++
	return w
}

// Wake lets the first waiter of key ask again.
func (l *List[V]) Wake(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if all := l.byKey[key]; all != nil {
		all.wake()
	}
}

// SetCost sets the cost of w that Ahead counts: 0 while the Store may have counted it.
func (l *List[V]) SetCost(w *Waiter[V], cost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.cost = cost
}

// Ahead returns the cost of the waiters of key before w that have its limits. Other limits may have
// states of their own, or make the cost a smaller part of the state.
func (l *List[V]) Ahead(key string, w *Waiter[V]) (cost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.byKey[key].waiters {
		if o == w {
			break
		}
		if o.view == w.view {
			cost += min(o.cost, math.MaxInt-cost)
		}
	}
	return cost
}

// Age returns the time for which w, the first waiter of key, has waited, and how much later the next one came, with its
// cost, which is 0 if there is none.
func (l *List[V]) Age(key string, w *Waiter[V]) (age, behind time.Duration, cost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	age = time.Since(w.since)
	all := l.byKey[key]
	if all.next = nil; len(all.waiters) > 1 {
		all.next = all.waiters[1]
		behind, cost = all.next.since.Sub(w.since), max(1, all.next.N)
	}
	return age, behind, cost
}

// Mark notes whether the Store has the queue of key as one that waits, and returns the earlier value.
func (l *List[V]) Mark(key string, marked bool) (before bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.byKey[key]
	before, all.marked = all.marked, marked
	return before
}

// Leave removes w. If w was the first waiter of its key, the next waiter becomes the first. admitted says whether the
// event of w was admitted: the Store then knows the next waiter if it has the queue, that waiter was the next one when w
// asked, and both have the same limits. Leave reports whether w was the last one, and the Store still has the queue as one
// that waits.
func (l *List[V]) Leave(key string, w *Waiter[V], admitted bool) (marked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.byKey[key]
	i := slices.Index(all.waiters, w)
	all.waiters = slices.Delete(all.waiters, i, i+1)
	l.n--
	switch {
	case len(all.waiters) == 0:
		delete(l.byKey, key)
		all.close()
		return all.marked
	case i == 0:
		next := all.waiters[0]
		next.Known = admitted && all.marked && next == all.next && next.view == w.view
		close(next.First)
	}
	return false
}

// Freed returns the channel that receives a value when w, the first waiter of its key, has to ask again.
func (w *Waiter[V]) Freed() <-chan struct{} {
	if w.Queue == nil {
		return nil
	}
	return w.Queue.freed
}
