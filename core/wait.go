package core

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// MaxWaiters is how many calls of Wait one Limiter holds at the same time.
const MaxWaiters = 10_000

// Wait blocks until an event of key is admitted and its Delay is over, and takes
// it. It returns an error, having taken nothing, when
//
//   - ctx ends: the error of ctx. What an event took that was being held is given
//     back, as in [Reservation.Refund];
//   - the event can never be admitted: [ErrNeverAdmitted];
//   - it cannot be admitted before the deadline of ctx: [ErrDeadlineTooNear], at
//     once and not when the deadline comes;
//   - [MaxWaiters] wait already: [ErrTooManyWaiters];
//   - the Store fails: its error. The event may then have been charged, once, as
//     it may if ctx ends while a Store on a network is being asked.
//
// Who waits for the same key in this process goes in the order of arrival. Other
// processes, and calls of Allow, may go between.
func (l *Limiter) Wait(ctx context.Context, key string) error { return l.WaitN(ctx, key, 1) }

// WaitN is [Limiter.Wait] for an event that weighs n. Zero does not wait, and
// less is an [ErrNegativeCost].
func (l *Limiter) WaitN(ctx context.Context, key string, n int) error {
	if n == 0 {
		return ctx.Err()
	}
	d, err := l.decide(ctx, l.patient(ctx, key, n), Peek)
	if err == nil {
		err = hopeless(ctx, d)
	}
	if err != nil {
		return err
	}
	turn, err := l.line.join(key)
	if err != nil {
		return err
	}
	defer l.line.leave(key, turn)
	select {
	case <-turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		r, err := ReserveAll(ctx, l.patient(ctx, key, n))
		if err != nil {
			return err
		}
		d := r.Decision()
		if d.Allowed {
			if err = sleep(ctx, d.Delay); err != nil {
				// What cannot be given back stays taken.
				_ = r.Refund(context.WithoutCancel(ctx))
			}
			return err
		}
		if err := hopeless(ctx, d); err != nil {
			return err
		}
		if err := sleep(ctx, d.RetryAfter); err != nil {
			return err
		}
	}
}

// patient is the question whether n events can go before ctx ends.
func (l *Limiter) patient(ctx context.Context, key string, n int) Ask {
	a := Ask{Limiter: l, Key: key, Cost: n}
	if left := left(ctx); left != Never {
		a.MaxDelay = left
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

// hopeless says at once what waiting within ctx could not change about d.
func hopeless(ctx context.Context, d Decision) error {
	if d.Allowed {
		return nil
	}
	wait := d.RetryAfter
	for _, s := range d.States() {
		// A place in a queue that is free when the wait is over has a turn after that.
		if s.Rule.algorithm == AlgorithmLeakyBucket && !s.Rule.shadow {
			wait = max(wait, s.ResetAfter)
		}
	}
	switch {
	case d.RetryAfter == Never:
		return ErrNeverAdmitted
	case wait >= left(ctx):
		return fmt.Errorf("%w: %v to wait", ErrDeadlineTooNear, wait)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A line is who waits, by key, in the order of arrival. The first of a key has
// its turn: a channel that is closed. The zero line is empty.
type line struct {
	mu    sync.Mutex
	turns map[string][]chan struct{}
	n     int
}

func (l *line) join(key string) (turn chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n == MaxWaiters {
		return nil, fmt.Errorf("%w: %d", ErrTooManyWaiters, l.n)
	}
	if l.turns == nil {
		l.turns = make(map[string][]chan struct{})
	}
	turn = make(chan struct{})
	if len(l.turns[key]) == 0 {
		close(turn)
	}
	l.turns[key] = append(l.turns[key], turn)
	l.n++
	return turn, nil
}

// leave takes a waiter out, wherever it stands; if it was the first, the next one
// has its turn.
func (l *line) leave(key string, turn chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	turns := l.turns[key]
	for i, t := range turns {
		if t != turn {
			continue
		}
		l.n--
		turns = append(turns[:i], turns[i+1:]...)
		if len(turns) == 0 {
			delete(l.turns, key)
			return
		}
		if i == 0 {
			close(turns[0])
		}
		l.turns[key] = turns
		return
	}
}
