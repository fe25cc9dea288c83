package redisstore

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// A deadline ends when the context of the caller ends or the deadline of the decision passes. Only
// one goroutine may use it.
type deadline struct {
	ctx context.Context
	at  time.Time
	err error // set when a wait finds that the deadline has ended

	timer   *time.Timer // may be that of an earlier deadline before started is true
	started bool
}

var deadlines = sync.Pool{New: func() any { return new(deadline) }}

func newDeadline(ctx context.Context, at time.Time) *deadline {
	d := deadlines.Get().(*deadline)
	d.ctx, d.at, d.err, d.started = ctx, at, nil, false
	return d
}

// free ends the use of d.
func (d *deadline) free() {
	if d.timer != nil {
		d.timer.Stop()
	}
	d.ctx = nil
	deadlines.Put(d)
}

// start starts the timer before the first wait.
func (d *deadline) start() {
	switch {
	case d.timer == nil:
		d.timer = time.NewTimer(time.Until(d.at))
	case !d.started:
		d.timer.Reset(time.Until(d.at))
	}
	d.started = true
}

// wait returns a value from c, or the error of d if d ends first.
func wait[T any](d *deadline, c <-chan T) (T, error) {
	var none T
	if d.err != nil {
		return none, d.err
	}
	d.start()
	select {
	case v := <-c:
		return v, nil
	case <-d.ctx.Done():
		d.err = d.ctx.Err()
	case <-d.timer.C:
		d.err = context.DeadlineExceeded
	}
	return none, d.err
}

// outcome returns the error of r, which is over. If r has failed and the deadline has passed, the
// deadline is the reason.
func (d *deadline) outcome(r *request) error {
	if r.err != nil && r.err != ErrOverloaded && !time.Now().Before(d.at) {
		d.err = context.DeadlineExceeded
		return d.err
	}
	return r.err
}

// sleep waits for a random time between t/2 and t, or until d ends.
func (d *deadline) sleep(t time.Duration) error {
	timer := time.NewTimer(t/2 + rand.N(t/2))
	defer timer.Stop()
	_, err := wait(d, timer.C)
	return err
}
