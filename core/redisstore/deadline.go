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
	ctx   context.Context
	at    time.Time
	timer *time.Timer // nil before the first wait
	err   error       // set when a wait finds that the deadline has ended
}

var timers = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		timers.Put(d.timer)
	}
}

// wait returns a value from c, or the error of d if d ends first.
func wait[T any](d *deadline, c <-chan T) (T, error) {
	var none T
	if d.err != nil {
		return none, d.err
	}
	if d.timer == nil {
		d.timer = timers.Get().(*time.Timer)
		d.timer.Reset(time.Until(d.at))
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

// outcome returns the error of r, which is over. If r has failed and the deadline has passed, the
// deadline is the reason.
func (d *deadline) outcome(r *request) error {
	if r.err != nil && !time.Now().Before(d.at) {
		d.err = context.DeadlineExceeded
		return d.err
	}
	return r.err
}

// pause waits for a random time between t/2 and t, or until d ends.
func (d *deadline) pause(t time.Duration) error {
	timer := time.NewTimer(t/2 + rand.N(t/2))
	defer timer.Stop()
	_, err := wait(d, timer.C)
	return err
}
