package failover_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// An outage is a Store that can be away.
type outage struct {
	driver.Store
	away atomic.Bool
}

func (o *outage) Take(ctx context.Context, charges []driver.Charge) error {
	if o.away.Load() {
		return errDown
	}
	return o.Store.Take(ctx, charges)
}

func (o *outage) Adjust(ctx context.Context, charges []driver.Charge) error {
	if o.away.Load() {
		return errDown
	}
	return o.Store.Adjust(ctx, charges)
}

// A flight is a Store with a rule of four places at a time, two of them on the backup.
type flight struct {
	*failover.Store
	t       *testing.T
	primary *outage
	backup  driver.Store
	rule    *driver.Compiled
}

func newFlight(t *testing.T, backup driver.Store, opts ...failover.Option) *flight {
	rule, err := driver.Definition{Name: "places", Algorithm: driver.InFlight, Events: 4, Hold: time.Minute}.Compile()
	testkit.Must(t, err)
	f := &flight{t: t, primary: &outage{Store: memstore.New()}, backup: backup, rule: rule}
	f.Store = failover.New(f.primary, backup, append(opts, failover.Instances(2))...)
	t.Cleanup(func() { f.Close() })
	return f
}

// do executes an op for each receipt, all in one call.
func (f *flight) do(op driver.Op, receipts ...driver.Receipt) ([]driver.Charge, error) {
	charges := make([]driver.Charge, len(receipts))
	for i, m := range receipts {
		charges[i] = driver.Charge{Key: "k", Rule: f.rule, Op: op, Cost: 1, Receipt: m}
	}
	return charges, storetest.Do(f.t.Context(), f.Store, charges)
}

func (f *flight) take() driver.Receipt {
	f.t.Helper()
	charges, err := f.do(driver.Spend, driver.Receipt{})
	if err != nil || !charges[0].Verdict.Allowed {
		f.t.Fatalf("the verdict is %+v, %v, want an admission", charges[0].Verdict, err)
	}
	return charges[0].Receipt
}

// renew checks the outcome of a renewal.
func (f *flight) renew(m driver.Receipt, found bool) {
	f.t.Helper()
	if c, err := f.do(driver.Renew, m); err != nil || c[0].Verdict.Found != found || c[0].Receipt != m {
		f.t.Errorf("the renewal of %v is %+v, %v, want found %t", m, c[0], err, found)
	}
}

// fails checks that an op of receipts fails because the primary cannot execute it.
func (f *flight) fails(op driver.Op, receipts ...driver.Receipt) {
	f.t.Helper()
	if _, err := f.do(op, receipts...); !errors.Is(err, core.ErrUnavailable) {
		f.t.Errorf("op %d returned %v, want core.ErrUnavailable", op, err)
	}
}

// left checks how many places are free on the primary and, of all four, on the backup.
func (f *flight) left(primary, backup int) {
	f.t.Helper()
	for s, want := range map[driver.Store]int{f.primary.Store: primary, f.backup: backup} {
		charges := []driver.Charge{{Key: "k", Rule: f.rule, Op: driver.Peek, Cost: 1}}
		testkit.Must(f.t, s.Take(f.t.Context(), charges))
		if got := charges[0].Verdict.Remaining; got != want {
			f.t.Errorf("%d places are free, want %d (%T)", got, want, s)
		}
	}
}

// until makes decisions until the Store is in the state want.
func (f *flight) until(want failover.State) {
	f.t.Helper()
	l := testkit.Limiter(f.t, f, wide)
	for begun := time.Now(); f.State() != want; time.Sleep(tick) {
		if time.Since(begun) > time.Minute/2 {
			f.t.Fatalf("the state is %v, want %v", f.State(), want)
		}
		testkit.Admit(f.t, l, "until", 1)
	}
}

// Undos and renewals go to the store that has the place, before, in and after an outage. A renewal that
// fails is not lost.
func TestStore_Adjust_inFlight(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFlight(t, memstore.New())
		a, b, c := f.take(), f.take(), f.take()
		f.renew(a, true)
		f.primary.away.Store(true)
		f.fails(driver.Renew, a)
		f.until(failover.Backup)
		d, e := f.take(), f.take()
		f.left(1, 2)
		if charges, err := f.do(driver.Spend, driver.Receipt{}); err != nil || charges[0].Verdict.Allowed {
			t.Errorf("the verdict is %+v, %v, want a denial by the backup", charges[0].Verdict, err)
		}
		time.Sleep(20 * time.Second)
		f.renew(d, true)
		f.fails(driver.Renew, a)
		f.fails(driver.Renew, e, b, d) // e and d are renewed nevertheless
		if n := f.Stats().Lost; n != 0 {
			t.Errorf("%d are lost after renewals, want none", n)
		}
		f.fails(driver.Undo, c)
		f.fails(driver.Undo, e, c)
		if n := f.Stats().Lost; n != 2 {
			t.Errorf("%d are lost after two undos, want 2", n)
		}
		f.left(1, 3)

		f.primary.away.Store(false)
		f.until(failover.Primary)
		f.renew(a, true)
		f.renew(d, true)
		f.renew(e, false)
		time.Sleep(45 * time.Second) // after the end of b and c
		f.renew(a, true)
		f.renew(b, false)
		f.renew(d, true)
		f.left(3, 3)
		if charges, err := f.do(driver.Renew, d, b, a); err != nil || !charges[0].Verdict.Found || charges[1].Verdict.Found || !charges[2].Verdict.Found {
			t.Errorf("the renewals are %+v, %v, want found, not found, found", charges, err)
		}
		_, err := f.do(driver.Undo, d, a)
		testkit.Must(t, err)
		f.left(4, 4)
	})
}

// An event that fail-open admits has no place, and loses none.
func TestStore_Adjust_inFlightFailOpen(t *testing.T) {
	for name, f := range map[string]func(t *testing.T) *flight{
		"backup": func(t *testing.T) *flight { return newFlight(t, failover.FailOpen) },
		"rule": func(t *testing.T) *flight {
			return newFlight(t, memstore.New(), failover.FailOpenFor("places"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := f(t)
				f.primary.away.Store(true)
				f.until(failover.Backup)
				for range 5 {
					m := f.take()
					f.renew(m, true)
					_, err := f.do(driver.Undo, m)
					testkit.Must(t, err)
				}
			})
		})
	}
}

// Places by cost are freed and renewed on the store that has them, also those of at most a cost, and a part of the
// limit is that of the backup.
func TestStore_Adjust_byCost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFlight(t, memstore.New())
		d := f.rule.Definition
		d.Events, d.ByCost = 40, true
		rule, err := d.Compile()
		testkit.Must(t, err)
		f.rule = rule
		take := func(cost int, atMost bool, want int) driver.Receipt {
			t.Helper()
			charges := []driver.Charge{{Key: "k", Rule: rule, Cost: cost, AtMost: atMost}}
			testkit.Must(t, f.Take(t.Context(), charges))
			if c := charges[0]; c.Verdict.Allowed != (want > 0) || want > 0 && c.Cost != want {
				t.Errorf("a Take of %d, at most %t: got the cost %d and %+v, want %d", cost, atMost, c.Cost, c.Verdict, want)
			}
			return charges[0].Receipt
		}
		a, b := take(25, false, 25), take(9, false, 9)
		take(7, false, 0)
		c := take(100, true, 6)
		f.left(0, 40)
		f.primary.away.Store(true)
		f.until(failover.Backup)
		take(21, false, 0) // of a half of the limit
		x := take(17, false, 17)
		y := take(30, true, 3)
		f.left(0, 20)
		f.fails(driver.Renew, a, x)
		f.fails(driver.Undo, b, y) // y is freed nevertheless
		f.left(0, 23)
		f.primary.away.Store(false)
		f.until(failover.Primary)
		f.renew(a, true)
		f.renew(x, true)
		for _, m := range []driver.Receipt{c, x} {
			_, err := f.do(driver.Undo, m)
			testkit.Must(t, err)
		}
		f.left(6, 40)
		f.renew(b, true) // the undo that failed
		_, err = f.do(driver.Undo, b, a)
		testkit.Must(t, err)
		f.left(40, 40)
	})
}

// The queue of a caller who gives up is removed from both stores.
func TestStore_Adjust_waiter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFlight(t, memstore.New())
		waiter := &driver.Waiter{Queue: 1}
		waits := func() {
			t.Helper()
			charges := []driver.Charge{{Key: "k", Rule: f.rule, Cost: 1, Waiter: waiter}}
			if err := f.Take(t.Context(), charges); err != nil || charges[0].Verdict.Allowed {
				t.Errorf("the caller who waits got %+v, %v", charges[0].Verdict, err)
			}
		}
		leaves := func() {
			t.Helper()
			testkit.Must(t, f.Adjust(t.Context(), []driver.Charge{{Key: "k", Rule: f.rule, Op: driver.Undo, Cost: 1, Waiter: waiter}}))
		}
		var held [4]driver.Receipt
		for i := range held {
			held[i] = f.take()
		}
		waits()
		leaves()
		f.primary.away.Store(true)
		f.until(failover.Backup)
		own := [2]driver.Receipt{f.take(), f.take()}
		waits()
		leaves()
		f.left(0, 2)
		_, err := f.do(driver.Undo, own[0])
		testkit.Must(t, err)
		f.left(0, 3)
		f.primary.away.Store(false)
		f.until(failover.Primary)
		waits()
		leaves()
		_, err = f.do(driver.Undo, append(held[:], own[1])...)
		testkit.Must(t, err)
		f.left(4, 4)
	})
}
