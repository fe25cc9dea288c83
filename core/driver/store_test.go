package driver_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/storetest"
)

func TestProbe(t *testing.T) {
	errTake, errProbe := errors.New("take"), errors.New("probe")
	want := []driver.Charge{{Key: "k", Op: driver.Peek, Cost: 1}}
	call := func(err error) storetest.Call {
		return func(_ context.Context, got []driver.Charge) error {
			if len(got) != 1 || &got[0] != &want[0] {
				t.Errorf("got %v, want %v", got, want)
			}
			return err
		}
	}
	f := &storetest.Fake{OnProbe: call(errProbe)}
	f.Set(func(ctx context.Context, charges []driver.Charge, _ storetest.Call) error {
		return call(errTake)(ctx, charges)
	})
	if err := driver.Probe(t.Context(), f, want); err != errProbe || f.Calls() != 0 {
		t.Errorf("a Prober: got %v after %d calls of Take, want %v after 0", err, f.Calls(), errProbe)
	}
	if err := driver.Probe(t.Context(), struct{ driver.Store }{f}, want); err != errTake || f.Calls() != 1 {
		t.Errorf("any other Store: got %v after %d calls of Take, want %v after 1", err, f.Calls(), errTake)
	}
}

// A Store over another one has the facts of that one, and a Store over several only the Clock of the first.
func TestDescribe(t *testing.T) {
	at := time.Date(2024, 2, 10, 0, 0, 0, 0, time.UTC)
	memory, clocked := memstore.New(), memstore.New(memstore.Clock(func() time.Time { return at }))
	remote := new(storetest.Fake).WithDeadline(time.Second)
	unknown := struct{ driver.Store }{clocked} // without a method Describe
	over := map[string]func(driver.Store) driver.Store{
		"itself":    func(s driver.Store) driver.Store { return s },
		"observe":   func(s driver.Store) driver.Store { return observe.New(s) },
		"denycache": func(s driver.Store) driver.Store { return denycache.New(s) },
		"lease":     func(s driver.Store) driver.Store { return lease.New(s) },
		"several":   func(s driver.Store) driver.Store { return observe.New(denycache.New(lease.New(s))) },
	}
	for name, c := range map[string]struct {
		store                  driver.Store
		local, steady, clocked bool
		deadline               time.Duration
	}{
		"memory":            {memory, true, true, false, 0},
		"a clock":           {clocked, true, false, true, 0},
		"a deadline":        {remote, false, false, false, time.Second},
		"unknown":           {unknown, false, false, false, 0},
		"failover":          {failover.New(memory, memory), false, false, false, 0},
		"failover, clock":   {failover.New(clocked, memory), false, false, true, 0},
		"failover, backup":  {failover.New(unknown, clocked), false, false, false, 0},
		"failover, network": {failover.New(remote, memory), false, false, false, 0},
	} {
		for wrapper, wrap := range over {
			s := wrap(c.store)
			d := driver.Describe(s)
			if d.Local != c.local || d.Steady != c.steady || d.Deadline != c.deadline || (d.Clock != nil) != c.clocked || c.clocked && !d.Clock().Equal(at) {
				t.Errorf("%s, %s: got %+v", name, wrapper, d)
			}
			if s != c.store && len(d.Behind) != 1 {
				t.Errorf("%s, %s: got %d stores behind, want 1", name, wrapper, len(d.Behind))
			}
		}
	}
}
