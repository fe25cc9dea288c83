package redisstore

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// A patience is how long one caller waits: until its context ends, or the
// deadline of the decision passes.
type patience struct {
	ctx      context.Context
	deadline time.Time
	timer    *time.Timer
	over     error // why it ended, once it has
}

var timers = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}}

func newPatience(ctx context.Context, deadline time.Time) *patience {
	t := timers.Get().(*time.Timer)
	t.Reset(time.Until(deadline))
	return &patience{ctx: ctx, deadline: deadline, timer: t}
}

// end gives the timer back.
func (p *patience) end() {
	p.timer.Stop()
	timers.Put(p.timer)
}

// wait waits for a value of c, and returns why it did not get one.
func wait[T any](p *patience, c <-chan T) (T, error) {
	var none T
	if p.over != nil {
		return none, p.over
	}
	select {
	case v := <-c:
		return v, nil
	case <-p.ctx.Done():
		p.over = p.ctx.Err()
	case <-p.timer.C:
		p.over = context.DeadlineExceeded
	}
	return none, p.over
}

// pause waits for a random part of d, at least half of it.
func (p *patience) pause(d time.Duration) error {
	t := time.NewTimer(d/2 + rand.N(d/2))
	defer t.Stop()
	_, err := wait(p, t.C)
	return err
}
