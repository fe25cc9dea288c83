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
	timer *time.Timer
	err   error // set when a wait finds that the deadline has ended
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

func (d *deadline) stop() {
	d.timer.Stop()
	timers.Put(d.timer)
}

// wait returns a value from c, or the error of d if d ends first.
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

// pause waits for a random time between t/2 and t, or until d ends.
func (d *deadline) pause(t time.Duration) error {
	timer := time.NewTimer(t/2 + rand.N(t/2))
	defer timer.Stop()
	_, err := wait(d, timer.C)
	return err
}
