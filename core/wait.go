package core

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// MaxWaiters is how many calls of Wait one Limiter holds at the same time.
const MaxWaiters = 10_000

// Wait blocks until an event of key is admitted and its Delay is over, and takes
// it. It returns an error when
//
//   - ctx ends: the error of ctx. If the event was held already, its place is given back, as
//     by [Reservation.Refund];
//   - the event can never be admitted: [ErrNeverAdmitted];
//   - it cannot be admitted before the deadline of ctx, with the events of the callers
//     that wait before it in this process: [ErrDeadlineTooNear], at once and not when the
//     deadline comes;
//   - [MaxWaiters] wait already: [ErrTooManyWaiters];
//   - the Store fails: its error.
//
// Nothing is taken then; only if the Store fails, or ctx ends while a Store on a network is
// being asked, may the event have been charged, but never twice.
//
// Callers that wait for the same key in this process go in the order of arrival. Other
// processes, and calls of Allow, may go between. With several rules, or where costs do not
// divide the limit of a window, the wait may be longer than estimated; ErrDeadlineTooNear then
// comes later.
func (l *Limiter) Wait(ctx context.Context, key string) error { return l.WaitN(ctx, key, 1) }

// WaitN is [Limiter.Wait] for an event that weighs n. Zero does not wait, and
// less is an [ErrNegativeCost].
func (l *Limiter) WaitN(ctx context.Context, key string, n int) error {
	if err := ctx.Err(); err != nil || n == 0 {
		return err
	}
	if n < 0 {
		return fmt.Errorf("%w: %d", ErrNegativeCost, n)
	}
	for i := range l.rules {
		if r := l.rules[i].inForce(); !r.d.Shadow && int64(n) > r.d.compiled.Capacity() {
			return ErrNeverAdmitted
		}
	}
	w, err := l.waiters.join(key, n)
	if err != nil {
		return err
	}
	defer l.waiters.leave(key, w)
	if err := l.checkWait(ctx, key, w); err != nil {
		return err
	}
	select {
	case <-w.first:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		// From here on, the Store counts the event and l.waiters does not. In between,
		// later callers expect too little before them, and never too much.
		l.waiters.setCost(w, 0)
		r, err := ReserveTogether(ctx, l.askWithin(ctx, key, n))
		if err != nil {
			return err
		}
		d := r.Decision()
		if d.Allowed {
			if d.Delay > 0 && d.Delay >= left(ctx) {
				err = fmt.Errorf("%w: %v to wait", ErrDeadlineTooNear, d.Delay)
			} else {
				err = sleep(ctx, d.Delay)
			}
			if err != nil {
				// On an error, the event stays charged.
				_ = r.Refund(context.WithoutCancel(ctx))
			}
			return err
		}
		if err := tooLate(ctx, d, 0, n); err != nil {
			return err
		}
		l.waiters.setCost(w, n)
		if err := sleep(ctx, d.RetryAfter); err != nil {
			return err
		}
	}
}

// checkWait returns ErrDeadlineTooNear if w cannot be admitted before the deadline of ctx,
// because of the callers before it.
func (l *Limiter) checkWait(ctx context.Context, key string, w *waiter) error {
	if left(ctx) == Never {
		return nil
	}
	for {
		ahead := l.waiters.ahead(key, w)
		if ahead == 0 {
			return nil // it is the first, or soon, and its decision tells
		}
		d, err := AllowTogether(ctx, Ask{Limiter: l, Key: key, Cost: saturated(ahead, w.n), Peek: true})
		if err != nil {
			return err
		}
		// If one of them was admitted meanwhile, it may have been counted twice.
		if err = tooLate(ctx, d, ahead, w.n); err == nil || l.waiters.ahead(key, w) == ahead {
			return err
		}
	}
}

// askWithin returns an Ask for n events that denies those whose delay ends after ctx.
func (l *Limiter) askWithin(ctx context.Context, key string, n int) Ask {
	a := Ask{Limiter: l, Key: key, Cost: n}
	if left := left(ctx); left != Never {
		a.MaxDelay = max(1, left-time.Microsecond)
	}
	return a
}

// left is the time until the deadline of ctx.
func left(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(1, time.Until(deadline))
	}
	return Never
}

// tooLate returns an error if d says that n events, after ahead others, cannot be admitted before
// ctx ends. d is the decision about all of them together.
func tooLate(ctx context.Context, d Decision, ahead, n int) error {
	wait := time.Duration(0)
	for _, s := range d.States() {
		if s.Rule.IsShadow() {
			continue
		}
		if int64(n) > s.Rule.d.compiled.Capacity() {
			return ErrNeverAdmitted
		}
		wait = max(wait, s.soonest(int64(ahead), int64(n)))
	}
	if wait > 0 && wait >= left(ctx) {
		return fmt.Errorf("%w: %v to wait", ErrDeadlineTooNear, wait)
	}
	return nil
}

// soonest returns the least wait after which n events can go, after ahead others. s is the State
// of all of them together. The result for a log is a lower bound.
func (s *State) soonest(ahead, n int64) time.Duration {
	l, capacity := s.Rule.Limit(), s.Rule.d.compiled.Capacity()
	total := ahead + n
	if total < 0 {
		return Never
	}
	switch {
	case s.Rule.Algorithm() == driver.LeakyBucket:
		// An event that finds room in the queue after the wait is still delayed.
		wait := after(s.ResetAfter, ahead, l)
		if !s.Allowed && total <= capacity {
			wait = max(wait, s.RetryAfter)
		}
		return wait
	case s.Allowed:
		return 0
	case total <= capacity:
		return s.RetryAfter
	case s.Rule.Algorithm() == driver.TokenBucket:
		return after(s.ResetAfter, total-capacity, l)
	}
	// More than a window holds: each event goes a period after the one that is capacity before.
	remaining := int64(s.Remaining) + s.Rule.d.compiled.Constants().Extra
	whole := (total - 1) / capacity
	first := s.Window
	if s.Rule.Algorithm() == driver.FixedWindow {
		whole = max(0, total-remaining-1) / capacity
	} else if total-whole*capacity <= remaining {
		first = 0
	}
	return after(first, whole*int64(l.Events), l)
}

// after is d and the time in which so many events come back.
func after(d time.Duration, events int64, l Limit) time.Duration {
	hi, lo := bits.Mul64(uint64(events), uint64(l.Per))
	if hi >= uint64(l.Events) {
		return Never
	}
	q, _ := bits.Div64(hi, lo, uint64(l.Events))
	if q > uint64(Never-d) {
		return Never
	}
	return d + time.Duration(q)
}

// sleep waits for d, or until ctx ends before that.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	end, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-end.Done()
	return ctx.Err()
}
