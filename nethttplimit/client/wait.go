package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-go/weir/core"
)

// An admission is the event of a request that may be sent.
type admission struct {
	*core.Reservation
	cancel context.CancelFunc // ends its context, after which its places are not renewed
}

// wait waits until the Limiter admits r, at most until MaxWait after begun.
func (t *Transport) wait(r *http.Request, key string, begun time.Time) (*admission, error) {
	ctx, cancel := context.WithCancel(r.Context())
	bounded := &waiting{Context: ctx}
	stop := func() bool { return true } // ends the effect of MaxWait, and reports whether it had none yet
	if t.MaxWait > 0 {
		bounded.deadline = begun.Add(t.MaxWait)
		stop = time.AfterFunc(time.Until(bounded.deadline), cancel).Stop
	}
	//lint:ignore SA1019 callers may still use it
	if cancelled := r.Cancel; cancelled != nil {
		decided := make(chan struct{})
		defer close(decided)
		go func() {
			select {
			case <-cancelled:
				cancel()
			case <-decided:
			}
		}()
	}
	event, err := t.Limiter.Acquire(bounded, key)
	inTime := stop()
	if err == nil && inTime {
		return &admission{event, cancel}, nil
	}
	if err == nil {
		_ = event.Refund(context.WithoutCancel(ctx))
	}
	cancel()
	if !inTime && r.Context().Err() == nil {
		err = fmt.Errorf("%w: it was not admitted within %v", core.ErrDeadlineTooNear, t.MaxWait)
	}
	return nil, notSent{err}
}

// A notSent is the error of a request that was not sent.
type notSent struct{ error }

func (e notSent) Error() string { return "weir: the request was not sent: " + e.error.Error() }
func (e notSent) Unwrap() error { return e.error }

// Timeout is that of a net.Error. The error of an http.Client, a url.Error, asks it.
func (e notSent) Timeout() bool {
	return errors.Is(e.error, context.DeadlineExceeded) || errors.Is(e.error, core.ErrDeadlineTooNear)
}

// end ends the event of a request without a connection, or of which the response has been read.
func (a *admission) end(ctx context.Context, refund bool) {
	ctx = context.WithoutCancel(ctx)
	if refund {
		_ = a.Refund(ctx) // after an error, the event stays charged
	} else {
		_ = a.Release(ctx) // after an error, the place lapses
	}
	a.cancel()
}

// A waiting is the context of a wait that ends before its parent. Its places are renewed until the parent ends.
type waiting struct {
	context.Context
	deadline time.Time // zero without one
}

// Deadline returns the earlier one of both deadlines.
func (c *waiting) Deadline() (time.Time, bool) {
	parent, ok := c.Context.Deadline()
	if c.deadline.IsZero() || ok && parent.Before(c.deadline) {
		return parent, ok
	}
	return c.deadline, true
}
