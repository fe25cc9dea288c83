package lease_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
)

// A rig is a Store that is some way off, in a bubble.
type rig struct {
	*testing.T
	behind *memstore.Store
	trip   time.Duration // one way
	down   error         // what calls return, if it is not nil

	mu    sync.Mutex
	calls int
}

const trip = time.Millisecond

func bubble(t *testing.T, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(&rig{T: t, behind: memstore.New(), trip: trip})
	})
}

// lease is a process.
func (r *rig) lease(opts ...lease.Option) *lease.Store {
	s := lease.New(r, opts...)
	r.Cleanup(func() { _ = s.Close() })
	return s
}

func (r *rig) Take(ctx context.Context, charges []driver.Charge) error { return r.do(ctx, charges) }

func (r *rig) Adjust(ctx context.Context, charges []driver.Charge) error { return r.do(ctx, charges) }

func (r *rig) do(ctx context.Context, charges []driver.Charge) error {
	r.mu.Lock()
	r.calls++
	down := r.down
	r.mu.Unlock()
	select {
	case <-time.After(r.trip):
	case <-ctx.Done():
		return ctx.Err()
	}
	if down != nil {
		return down
	}
	if err := storetest.Do(ctx, r.behind, charges); err != nil {
		return err
	}
	time.Sleep(r.trip)
	return nil
}

// called is how often the Store was asked while f ran.
func (r *rig) called(f func()) int {
	before := r.count()
	f()
	return r.count() - before
}

func (r *rig) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

func (r *rig) breakDown(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = err
}

func (r *rig) limiter(s driver.Store, rules ...core.Rule) *core.Limiter {
	r.Helper()
	l, err := core.New(s, rules...)
	if err != nil {
		r.Fatal(err)
	}
	return l
}

func (r *rig) ask(l *core.Limiter, n int) core.Decision {
	r.Helper()
	d, err := l.AllowN(r.Context(), "k", n)
	if err != nil {
		r.Fatal(err)
	}
	return d
}

// admit asks for single events, which have to be admitted.
func (r *rig) admit(l *core.Limiter, n int) {
	r.Helper()
	for i := range n {
		if d := r.ask(l, 1); !d.Allowed {
			r.Fatalf("event %d of %d was denied: %+v", i+1, n, d.State(0))
		}
	}
}

// drain asks for single events until one is denied, and returns how many were not.
func (r *rig) drain(l *core.Limiter) (n int) {
	r.Helper()
	for r.ask(l, 1).Allowed {
		n++
	}
	return n
}

// remaining is what the Store itself has left.
func (r *rig) remaining(rules ...core.Rule) int {
	r.Helper()
	d, err := r.limiter(r.behind, rules...).Peek(r.Context(), "k")
	if err != nil {
		r.Fatal(err)
	}
	return d.State(0).Remaining
}
