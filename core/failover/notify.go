package failover

import "sync"

// mostChanges bounds the changes that wait for a slow OnChange.
const mostChanges = 64

type change struct {
	from, to State
	cause    error
}

// A notifier tells changes in order, without a lock. Its goroutine ends when there
// is nothing to tell.
type notifier struct {
	call func(from, to State, cause error) // may be nil

	mu      sync.Mutex
	pending []change
	busy    bool
	closed  bool
	done    sync.WaitGroup
}

// add has a change told.
func (n *notifier) add(from, to State, cause error) {
	if n.call == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch last := len(n.pending) - 1; {
	case n.closed:
		return
	case len(n.pending) < mostChanges:
		n.pending = append(n.pending, change{from, to, cause})
	case n.pending[last].from == to:
		n.pending = n.pending[:last] // there and back again
	default:
		n.pending[last].to, n.pending[last].cause = to, cause
	}
	if !n.busy {
		n.busy = true
		n.done.Go(n.run)
	}
}

func (n *notifier) run() {
	for {
		n.mu.Lock()
		if len(n.pending) == 0 {
			n.busy = false
			n.mu.Unlock()
			return
		}
		c := n.pending[0]
		n.pending = n.pending[1:]
		n.mu.Unlock()
		n.call(c.from, c.to, c.cause)
	}
}

// close forgets what has not been told, and waits for what is being told.
func (n *notifier) close() {
	n.mu.Lock()
	n.closed, n.pending = true, nil
	n.mu.Unlock()
	n.done.Wait()
}
