package core

import (
	"fmt"
	"slices"
	"sync"
)

// waiters has the callers of Wait of each key, in the order of arrival. The zero value is empty.
type waiters struct {
	mu    sync.Mutex
	byKey map[string][]*waiter
	n     int // of all keys
}

// A waiter is one call of Wait. The first of its key calls the Store, and the others wait for it.
type waiter struct {
	first chan struct{} // closed when it is the first of its key
	n     int           // the cost of its event
	cost  int           // n, or 0 while the Store may have counted it; guarded by the mutex of waiters
}

// join adds a waiter behind the others of key.
func (l *waiters) join(key string, n int) (*waiter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n == MaxWaiters {
		return nil, fmt.Errorf("%w: %d", ErrTooManyWaiters, l.n)
	}
	if l.byKey == nil {
		l.byKey = make(map[string][]*waiter)
	}
	w := &waiter{first: make(chan struct{}), n: n, cost: n}
	if len(l.byKey[key]) == 0 {
		close(w.first)
	}
	l.byKey[key] = append(l.byKey[key], w)
	l.n++
	return w, nil
}

func (l *waiters) setCost(w *waiter, cost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.cost = cost
}

// ahead returns the cost of the waiters of key before w.
func (l *waiters) ahead(key string, w *waiter) (cost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.byKey[key] {
		if o == w {
			break
		}
		cost = saturated(cost, o.cost)
	}
	return cost
}

// leave removes w. If it was the first of its key, the next one becomes the first.
func (l *waiters) leave(key string, w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.byKey[key], w)
	l.byKey[key] = slices.Delete(l.byKey[key], i, i+1)
	l.n--
	switch rest := l.byKey[key]; {
	case len(rest) == 0:
		delete(l.byKey, key)
	case i == 0:
		close(rest[0].first)
	}
}
