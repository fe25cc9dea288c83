package pipe

import (
	"context"
	"time"
)

// tickLength is the longest time by which an inlineContext ends after its deadline.
const tickLength = time.Millisecond

// A tick is a time at which contexts end.
type tick struct {
	at   time.Time
	done chan struct{} // closed at that time
}

// next returns t if a context with the deadline can end with it, or a new tick. t may be nil. now is the present time.
func (t *tick) next(now, deadline time.Time) *tick {
	if t != nil && !t.at.Before(deadline) && t.at.Sub(deadline) <= tickLength {
		return t
	}
	t = &tick{at: deadline.Add(tickLength), done: make(chan struct{})}
	time.AfterFunc(t.at.Sub(now), func() { close(t.done) })
	return t
}

// An inlineContext is the context of an inline round trip: the values of the context of its caller, and the deadline of
// the job, which connections keep exactly. A timer for each of these contexts would be the largest part of their cost, so
// those that end within tickLength share one.
type inlineContext struct {
	context.Context // of the caller, without its end
	deadline        time.Time
	*tick
}

func (c *inlineContext) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *inlineContext) Done() <-chan struct{} { return c.done }

func (c *inlineContext) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
