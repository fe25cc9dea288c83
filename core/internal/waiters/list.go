// Package waiters keeps the callers that wait for an admission in the order of their arrival.
package waiters

import (
	"math"
	"slices"
	"sync"
)

// A List has the waiters of each key, in the order of arrival. V identifies limits. The zero value is empty. It is safe
// for concurrent use.
type List[V comparable] struct {
	mu    sync.Mutex
	byKey map[string][]*Waiter[V]
	n     int // the number of waiters of all keys
}

// A Waiter is one call that waits. Only the first Waiter of a key calls the Store. The others wait.
type Waiter[V comparable] struct {
	First chan struct{} // closed when this Waiter is the first of its key
	Freed chan struct{} // receives a value when a place of the key is free, and this Waiter is the first
	N     int           // the cost of its event
	view  V             // the limits when it was called
	cost  int           // N, or 0 while the Store may have counted it; guarded by the mutex of List
}

// Join adds a Waiter after all others of key, or returns nil if there are most.
func (l *List[V]) Join(key string, n int, v V, most int) *Waiter[V] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n == most {
		return nil
	}
	if l.byKey == nil {
		l.byKey = make(map[string][]*Waiter[V])
	}
	w := &Waiter[V]{First: make(chan struct{}), Freed: make(chan struct{}, 1), N: n, view: v, cost: n}
	if len(l.byKey[key]) == 0 {
		close(w.First)
	}
	l.byKey[key] = append(l.byKey[key], w)
	l.n++
	return w
}

// Wake lets the first waiter of key ask again.
func (l *List[V]) Wake(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if list := l.byKey[key]; len(list) > 0 {
		select {
		case list[0].Freed <- struct{}{}:
		default:
		}
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
	for _, o := range l.byKey[key] {
		if o == w {
			break
		}
		if o.view == w.view {
			cost += min(o.cost, math.MaxInt-cost)
		}
	}
	return cost
}

// Leave removes w. If w was the first waiter of its key, the next waiter becomes the first.
func (l *List[V]) Leave(key string, w *Waiter[V]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.byKey[key], w)
	l.byKey[key] = slices.Delete(l.byKey[key], i, i+1)
	l.n--
	switch rest := l.byKey[key]; {
	case len(rest) == 0:
		delete(l.byKey, key)
	case i == 0:
		close(rest[0].First)
	}
}
