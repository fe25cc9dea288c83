package apptest

import (
	"cmp"
	"context"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
)

// Memory returns a Store that decides in memory.
func Memory() *storetest.Fake { return &storetest.Fake{Store: memstore.New()} }

// States are the results of a Store, by the name of the rule or by "name key".
type States = map[string]core.State

// Allowed returns the State of a rule that admits a request.
func Allowed(remaining int, window, reset time.Duration) core.State {
	return core.State{Allowed: true, Remaining: remaining, Window: window, ResetAfter: reset}
}

// Denied returns the State of a rule that denies a request for the duration retry.
func Denied(retry time.Duration) core.State {
	return core.State{RetryAfter: retry, Window: retry, ResetAfter: retry}
}

// Scripted returns a Store that returns the states, or fails with err.
func Scripted(states States, err error) *storetest.Fake {
	return new(storetest.Fake).Set(func(_ context.Context, charges []driver.Charge, _ storetest.Call) error {
		for i := range charges {
			c := &charges[i]
			state, ok := states[c.Rule.Name+" "+c.Key]
			if !ok {
				state = states[c.Rule.Name]
			}
			c.Verdict = driver.Verdict{
				Rule: c.Rule, Allowed: state.Allowed, Unknown: state.Unknown, Soft: state.Soft, Remaining: state.Remaining,
				RetryAfter: state.RetryAfter, ResetAfter: state.ResetAfter, Window: state.Window, Delay: state.Delay,
			}
		}
		return err
	})
}

// OnUndo returns a Store in memory that calls f before it undoes a charge, and fails if f does.
func OnUndo(f func(ctx context.Context) error) *storetest.Fake {
	return Memory().Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		if charges[0].Op == driver.Undo {
			if err := f(ctx); err != nil {
				return err
			}
		}
		return next(ctx, charges)
	})
}

// Stuck returns a Store whose calls return when the request ends, with err or the error of its
// context. It closes entered when it is called.
func Stuck(entered chan<- struct{}, err error) *storetest.Fake {
	return new(storetest.Fake).Set(func(ctx context.Context, _ []driver.Charge, _ storetest.Call) error {
		close(entered)
		<-ctx.Done()
		return cmp.Or(err, ctx.Err())
	})
}

// Recording returns a hook that adds the charges of every call to asked.
func Recording(asked *[]driver.Charge) storetest.Hook {
	return func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		*asked = append(*asked, charges...)
		return next(ctx, charges)
	}
}
