package storetest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A Fake is a [driver.Store] for tests of stores over stores, and of programs that
// use a Store: it counts calls, and its hooks delay them, make them fail, or change
// their charges and answers. The zero Fake is ready to use, decides by [time.Now],
// and returns an [driver.ErrInvalidCharge] for charges that break the contract of
// [driver.Store].
//
// A Fake is also a [driver.Declarer] and a [driver.Prober]; struct{ driver.Store }{f}
// is neither. It is safe for concurrent use, starts no goroutine, and works in a bubble
// of testing/synctest. It must not be copied, nor its fields be set after the first call.
type Fake struct {
	// Store decides. If it is nil, the Fake has states of its own.
	Store driver.Store
	// Clock returns the time of the Fake's own states in microseconds, as [Clock.Micros]
	// does. If it is nil, that is the time since the Unix epoch.
	Clock func() int64
	// OnProbe, if it is not nil, answers probes. Otherwise they pass the hooks and go to
	// the Probe of Store, or to Take if Store is no [driver.Prober].
	OnProbe Call

	once    sync.Once
	own     *reference // nil if Store is not
	hooks   atomic.Pointer[[]Hook]
	calls   atomic.Int64
	active  atomic.Int64
	charges [driver.Undo + 1]atomic.Int64
}

// Set replaces the hooks of calls that begin afterwards. The first hook is called first,
// and its next is the second. Without hooks the Store is called. Set returns f.
func (f *Fake) Set(hooks ...Hook) *Fake {
	f.hooks.Store(&hooks)
	return f
}

// Calls is the number of calls that have begun, without those of OnProbe and Declare.
func (f *Fake) Calls() int { return int(f.calls.Load()) }

// Active is the number of these calls that have not returned.
func (f *Fake) Active() int { return int(f.active.Load()) }

// Charges is the number of charges with op in these calls.
func (f *Fake) Charges(op driver.Op) int { return int(f.charges[op].Load()) }

// Forget forgets all states of key. It panics if the Fake has a Store.
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
func (f *Fake) Declare(rules ...*driver.Compiled) error {
	if d, ok := f.Store.(driver.Declarer); ok {
		return d.Declare(rules...)
	}
	return nil
}

// WithDeadline returns f as a [driver.Deadliner], which says d and does nothing to keep it.
func (f *Fake) WithDeadline(d time.Duration) driver.Store { return deadliner{f, d} }

type deadliner struct {
	*Fake
	deadline time.Duration
}

func (d deadliner) Deadline() time.Duration { return d.deadline }

// store is the Store that decides.
func (f *Fake) store() driver.Store {
	if f.Store != nil {
		return f.Store
	}
	f.once.Do(func() {
		f.own = &reference{clock: f.Clock, states: make(map[place]driver.State)}
		if f.Clock == nil {
			f.own.clock = func() int64 { return time.Now().UnixMicro() }
		}
	})
	return f.own
}

// call counts a call, and has the hooks call last.
func (f *Fake) call(ctx context.Context, charges []driver.Charge, last Call) error {
	f.calls.Add(1)
	f.active.Add(1)
	defer f.active.Add(-1)
	for i := range charges {
		if op := charges[i].Op; op <= driver.Undo {
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
