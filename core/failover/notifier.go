package failover

import "sync"

// A notifier tells changes of the State without a lock, on a goroutine that ends after the
// function was called with the present State.
type notifier struct {
	call func(from, to State, cause error)

	mu       sync.Mutex
	reported State // the last State that the function was called with
	state    State
	cause    error // of state
	running  bool  // the goroutine exists
	closed   bool
	done     sync.WaitGroup
}

// add records a change of the State. It does not wait until the function has been called.
func (n *notifier) add(to State, cause error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state, n.cause = to, cause
	if !n.running && !n.closed {
		n.running = true
		n.done.Go(n.run)
	}
}

func (n *notifier) run() {
	for {
		n.mu.Lock()
		from, to, cause := n.reported, n.state, n.cause
		if from == to || n.closed {
			n.running = false
			n.mu.Unlock()
			return
		}
		n.reported = to
		n.mu.Unlock()
		n.call(from, to, cause)
	}
}

// close prevents further calls, and waits for the call that is running.
func (n *notifier) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.done.Wait()
}
