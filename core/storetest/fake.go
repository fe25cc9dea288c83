package storetest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A Fake is a [driver.Store] for tests of stores over stores, and of programs that use a Store. It
// counts calls, and its hooks delay calls, make them fail, or change charges and verdicts. The zero
// Fake is ready to use: it keeps states of its own, reads the time from [time.Now], and returns an
// error that wraps [driver.ErrInvalidCharge] for charges that violate the contract of
// [driver.Store].
//
// A Fake implements [driver.Declarer] and [driver.Prober]; struct{ driver.Store }{f} implements
// neither. A Fake is safe for concurrent use, starts no goroutine, and works in a bubble of
// testing/synctest. The caller must not copy a Fake, or set its fields after the first call.
type Fake struct {
	// Store decides the calls. If Store is nil, the Fake keeps states of its own.
	Store driver.Store
	// Clock returns the time for the Fake's own states, in microseconds since the Unix epoch, as
	// [Clock.Micros] does. If Clock is nil, the Fake uses [time.Now].
	Clock func() int64
	// OnProbe is called for a probe. If OnProbe is nil, a probe passes the hooks and calls the
	// Probe of Store, or Take if Store is not a [driver.Prober].
	OnProbe Call

	once    sync.Once
	own     *reference // nil if Store is set
	hooks   atomic.Pointer[[]Hook]
	calls   atomic.Int64
	active  atomic.Int64
	charges [driver.Renew + 1]atomic.Int64
}

// Set replaces the hooks for the calls that begin afterwards, and returns f. A call of the Fake
// calls the first hook. The argument next of each hook calls the hook after it, and next of the
// last hook calls the Store. Without hooks, a call goes to the Store directly.
func (f *Fake) Set(hooks ...Hook) *Fake {
	f.hooks.Store(&hooks)
	return f
}

// Calls returns the number of calls that have begun, except calls of OnProbe and Declare.
func (f *Fake) Calls() int { return int(f.calls.Load()) }

// Active returns the number of calls, as Calls counts them, that have not returned.
func (f *Fake) Active() int { return int(f.active.Load()) }

// Charges returns the number of charges with op in the calls that Calls counts.
func (f *Fake) Charges(op driver.Op) int { return int(f.charges[op].Load()) }

// Forget deletes all states of key. It panics if the field Store is set.
func (f *Fake) Forget(key string) { f.store().(*reference).forget(key) }

// Take implements [driver.Store].
func (f *Fake) Take(ctx context.Context, charges []driver.Charge) error {
	return f.call(ctx, charges, f.store().Take)
}

// Adjust implements [driver.Store].
func (f *Fake) Adjust(ctx context.Context, charges []driver.Charge) error {
	return f.call(ctx, charges, f.store().Adjust)
}

// Probe implements [driver.Prober].
func (f *Fake) Probe(ctx context.Context, charges []driver.Charge) error {
	if f.OnProbe != nil {
		return f.OnProbe(ctx, charges)
	}
	if p, ok := f.Store.(driver.Prober); ok {
		return f.call(ctx, charges, p.Probe)
	}
	return f.Take(ctx, charges)
}

// Declare implements [driver.Declarer] if Store does, and returns nil otherwise.
func (f *Fake) Declare(changes ...driver.Change) error {
	return driver.Declare(f.Store, changes...)
}

// WithDeadline returns f with a [driver.Description] whose Deadline is d. The Fake does not enforce d.
func (f *Fake) WithDeadline(d time.Duration) driver.Store { return deadliner{f, d} }

type deadliner struct {
	*Fake
	deadline time.Duration
}

// Describe returns the Deadline.
func (d deadliner) Describe() driver.Description { return driver.Description{Deadline: d.deadline} }

func (f *Fake) store() driver.Store {
	if f.Store != nil {
		return f.Store
	}
	f.once.Do(func() {
		f.own = &reference{clock: f.Clock, states: make(map[stateKey]driver.State)}
		if f.Clock == nil {
			f.own.clock = func() int64 { return time.Now().UnixMicro() }
		}
	})
	return f.own
}

// call counts a call and passes it through the hooks to last.
func (f *Fake) call(ctx context.Context, charges []driver.Charge, last Call) error {
	f.calls.Add(1)
	f.active.Add(1)
	defer f.active.Add(-1)
	for i := range charges {
		if op := charges[i].Op; op <= driver.Renew {
			f.charges[op].Add(1)
		}
	}
	if hooks := f.hooks.Load(); hooks != nil {
		for _, hook := range slices.Backward(*hooks) {
			next := last
			last = func(ctx context.Context, charges []driver.Charge) error { return hook(ctx, charges, next) }
		}
	}
	return last(ctx, charges)
}
