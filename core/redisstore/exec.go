package redisstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// An executor executes the scripts of calls.
type executor struct {
	counters
	freers    atomic.Int64 // at work
	sender    sender
	timeout   time.Duration // of the Store
	clock     func() string // set by tests, Unix microseconds; nil for the clock of the server
	reload    func()        // reloads the slots of a Cluster after a command failed; may be nil
	arguments argumentCache
}

// counters count for [Stats].
type counters struct {
	corrupt, retried, roundTrips, requests atomic.Uint64
	running                                atomic.Int64
}

// A sender executes a request and sets its outcome. If d ends first, send returns the error of d,
// and the caller must not access the request any more. Otherwise it returns the error of the
// outcome.
type sender interface {
	send(d *deadline, r *request) error
	length() int // of the backlog
}

const (
	attempts = 4                    // at most, for a request that did not run
	backoff  = 2 * time.Millisecond // doubles with each attempt
)

// exec executes the script of c before the deadline, and sets the outcome of c. It sends the request
// until it has run or may have run, until all attempts have failed, or until the deadline ends.
func (e *executor) exec(ctx context.Context, at time.Time, c *call) {
	d := newDeadline(ctx, at)
	defer d.free()
	var before error // of the attempt before
	for attempt := 1; ; attempt++ {
		r := e.newRequest(c)
		err := e.sender.send(d, r)
		if before != nil && errors.Is(err, ErrOverloaded) {
			err = before // too little time is left after an outage
		}
		before = err
		if err == nil {
			c.number = r.number
			c.err, c.waited = c.decode(r.time, r.reply), r.waited
			r.free()
			return
		}
		if e.reload != nil && ctx.Err() == nil {
			e.reload()
		}
		if d.err != nil || !didNotRun(err) || attempt >= attempts || d.sleep(backoff<<attempt) != nil {
			c.err = err
			return
		}
		e.retried.Add(1)
	}
}
