package failover

import "sync"

// An events calls the function of [OnChange] without a lock, on a goroutine that ends when the
// function has been called with the present State.
type events struct {
	call func(from, to State, cause error) // may be nil

	mu      sync.Mutex
	told    State // the last State that the function was called with
	state   State
	cause   error // of state
	running bool  // the goroutine exists
	closed  bool
	done    sync.WaitGroup
}

// add notes a change of the State, for the function of [OnChange]. It does not wait for it.
func (e *events) add(to State, cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state, e.cause = to, cause
	if e.call != nil && !e.running && !e.closed {
		e.running = true
		e.done.Go(e.run)
	}
}

func (e *events) run() {
	for {
		e.mu.Lock()
		from, to, cause := e.told, e.state, e.cause
		if from == to || e.closed {
			e.running = false
			e.mu.Unlock()
			return
		}
		e.told = to
		e.mu.Unlock()
		e.call(from, to, cause)
	}
}

// close ends the calls, and waits for the call that is running.
func (e *events) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.done.Wait()
}
