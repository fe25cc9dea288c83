package redisstore

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// A deadline bounds how long one caller waits: until its context ends, or the deadline of the
// decision passes. It is used by one goroutine.
type deadline struct {
	ctx   context.Context
	at    time.Time
	timer *time.Timer
	err   error // why the wait ended, once it has
}

var timers = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}}

func newDeadline(ctx context.Context, at time.Time) *deadline {
	t := timers.Get().(*time.Timer)
	t.Reset(time.Until(at))
	return &deadline{ctx: ctx, at: at, timer: t}
}

// stop releases the timer.
func (d *deadline) stop() {
	d.timer.Stop()
	timers.Put(d.timer)
}

// wait waits for a value of c until d ends, and returns the error of d then.
func wait[T any](d *deadline, c <-chan T) (T, error) {
	var none T
	if d.err != nil {
		return none, d.err
	}
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

// pause waits for a random part of t, at least half of it.
func (d *deadline) pause(t time.Duration) error {
	timer := time.NewTimer(t/2 + rand.N(t/2))
	defer timer.Stop()
	_, err := wait(d, timer.C)
	return err
}
