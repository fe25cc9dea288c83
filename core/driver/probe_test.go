package driver_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weir-go/weir/core/driver"
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
