package storetest

import (
	"cmp"
	"context"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A Call is a method of a Store, such as Take.
type Call = func(ctx context.Context, charges []driver.Charge) error

// A Hook is called instead of the Store. It calls next to have the Store decide, with the
// ctx and charges that it was called with or with others, and returns the error of the call.
type Hook func(ctx context.Context, charges []driver.Charge, next Call) error

// Delay returns a Hook that waits for out before the Store decides, and for back before
// its answer returns. A ctx that ends ends both waits with its error.
func Delay(out, back time.Duration) Hook {
	return func(ctx context.Context, charges []driver.Charge, next Call) error {
		if err := sleep(ctx, out); err != nil {
			return err
		}
		if err := next(ctx, charges); err != nil {
			return err
		}
		return sleep(ctx, back)
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

// Block returns a Hook that waits until the channel is closed, and then has the Store
// decide. A ctx that ends ends the wait with its error; if until is nil, nothing else does.
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

// Fail returns a Hook that returns err without a decision of the Store.
func Fail(err error) Hook {
	return func(context.Context, []driver.Charge, Call) error { return err }
}

// Lose returns a Hook that has the Store decide, and returns err even so, as if the answer
// had been lost.
func Lose(err error) Hook {
	return func(ctx context.Context, charges []driver.Charge, next Call) error {
		return cmp.Or(next(ctx, charges), err)
	}
}
