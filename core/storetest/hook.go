package storetest

import (
	"cmp"
	"context"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A Call is a method of a Store, such as Take.
type Call = func(ctx context.Context, charges []driver.Charge) error

// A Hook is called instead of the Store, and the call returns the error of the Hook. To let the
// Store decide, the Hook calls next, with the ctx and charges of the call or with other ones.
type Hook func(ctx context.Context, charges []driver.Charge, next Call) error

// Delay returns a Hook that waits for the time out before it calls the Store, and for the time back
// before it returns. If ctx ends during a wait, the Hook returns the error of ctx at once.
func Delay(out, back time.Duration) Hook {
	return func(ctx context.Context, charges []driver.Charge, next Call) error {
		if err := sleep(ctx, out); err != nil {
			return err
		}
		if err := next(ctx, charges); err != nil {
			return err
		}
		err := sleep(ctx, back)
		if err != nil {
			forget(charges)
		}
		return err
	}
}

// forget removes the verdicts of charges, which were lost on their way.
func forget(charges []driver.Charge) {
	for i := range charges {
		charges[i].Verdict = driver.Verdict{}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Block returns a Hook that calls the Store when until is closed. If ctx ends first, the Hook
// returns the error of ctx. If until is nil, the Hook always waits for the end of ctx.
func Block(until <-chan struct{}) Hook {
	return func(ctx context.Context, charges []driver.Charge, next Call) error {
		select {
		case <-until:
			return next(ctx, charges)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Fail returns a Hook that returns err and does not call the Store.
func Fail(err error) Hook {
	return func(context.Context, []driver.Charge, Call) error { return err }
}

// Lose returns a Hook that calls the Store and returns err even if the Store has decided, as if the
// verdict had been lost.
func Lose(err error) Hook {
	return func(ctx context.Context, charges []driver.Charge, next Call) error {
		err := cmp.Or(next(ctx, charges), err)
		if err != nil {
			forget(charges)
		}
		return err
	}
}

// FailFor returns a Hook for a Store that fails for some keys, as a Cluster does while one of its nodes is
// down. A call of Adjust applies the charges of all other keys, and returns err, as does a call of Take.
func FailFor(err error, fails func(key string) bool) Hook {
	return func(ctx context.Context, charges []driver.Charge, next Call) error {
		var healthy []driver.Charge
		var places []int
		for i, c := range charges {
			if !fails(c.Key) {
				healthy, places = append(healthy, c), append(places, i)
			}
		}
		if len(healthy) == len(charges) {
			return next(ctx, charges)
		}
		if len(healthy) == 0 || charges[0].Op.Asks() {
			return err
		}
		failed := next(ctx, healthy)
		for i, place := range places {
			charges[place] = healthy[i]
		}
		return cmp.Or(failed, err)
	}
}
