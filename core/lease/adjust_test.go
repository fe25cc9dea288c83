package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// A Reset discards the tokens that are held, even if it fails, and frees all of the limit.
func TestStore_Adjust_Reset(t *testing.T) {
	bubbleEach(t, hourly, func(x *fixture, rule core.Rule) {
		s := x.lease()
		l := x.limiter(s, rule)
		x.hold(s, rule)
		lost := errors.New("lost")
		x.behind.Set(storetest.Lose(lost))
		if _, err := l.Reset(x.Context(), "k"); !errors.Is(err, lost) || s.Stats().Held != 0 {
			x.Errorf("expected the error %q and no token, got %v and %d", lost, err, s.Stats().Held)
		}
		x.behind.Set(storetest.Delay(trip, trip))
		x.hold(s, rule)
		for _, want := range []bool{true, false} {
			found, err := l.Reset(x.Context(), "k")
			if found != want || err != nil || s.Stats().Held != 0 {
				x.Errorf("expected found %v and no token, got %v, %v, %d", want, found, err, s.Stats().Held)
			}
		}
		time.Sleep(time.Second)
		if n := x.left(rule); n != 50_000 {
			x.Errorf("expected 50000 events left, got %d", n)
		}
	})
}

// A bundle that was under way during a Reset is not held.
func TestStore_Adjust_ResetDuringFetch(t *testing.T) {
	bubbleEach(t, daily, func(x *fixture, rule core.Rule) {
		s := x.lease()
		l := x.limiter(s, rule)
		held := x.hold(s, rule)
		asked := make(chan bool)
		blocked := make(chan struct{})
		x.behind.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
			err := next(ctx, charges)
			if charges[0].Op == driver.Spend {
				<-blocked
			}
			return err
		})
		go func() { asked <- x.ask(l, held+20).Allowed }()
		synctest.Wait()
		if _, err := l.Reset(x.Context(), "k"); err != nil {
			x.Fatal(err)
		}
		close(blocked)
		if !<-asked || s.Stats().Held != 0 {
			x.Errorf("expected an admission and no token, got %d tokens", s.Stats().Held)
		}
	})
}

// A caller that comes after a Reset or Credit is not denied by the reply to an earlier call.
func TestStore_Adjust_DuringDenial(t *testing.T) {
	a, b := core.FixedWindow("a", core.PerDay(1600)), core.FixedWindow("b", core.PerDay(10))
	for _, op := range []driver.Op{driver.Reset, driver.Credit} {
		for _, rules := range [][]core.Rule{{a}, {a, b}} {
			bubble(t, func(x *fixture) {
				x.behind.Set()
				s := x.lease()
				x.take(s, 1600, a)
				blocked, done, later := make(chan struct{}), make(chan bool), make(chan bool)
				x.behind.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
					err := next(ctx, charges)
					<-blocked
					return err
				})
				go func() { done <- x.take(s, 1, rules...) }()
				synctest.Wait()
				x.behind.Set()
				testkit.Must(x, s.Adjust(x.Context(), []driver.Charge{{Key: "k", Rule: testkit.Compiled(a), Op: op, Cost: 1}}))
				go func() { later <- x.take(s, 1, a) }()
				synctest.Wait()
				close(blocked)
				if <-done || !<-later {
					x.Errorf("op %d, %d rules: expected a denial from before, and an admission after, got others", op, len(rules))
				}
			})
		}
	}
}

// Verdicts count a Credit that was passed on, and the tokens that are held.
func TestStore_Adjust_RemainingAfterCredit(t *testing.T) {
	bubble(t, func(x *fixture) {
		s, rule := x.lease(), daily[1]
		l := x.limiter(s, rule)
		x.ask(l, 1000)
		x.hold(s, rule)
		before := x.ask(l, 1).State(0)
		testkit.Must(x, l.Credit(x.Context(), "k", 1))
		if after := x.ask(l, 1).State(0); after.Remaining > before.Remaining+1 || after.Window < time.Hour {
			x.Errorf("expected %d remaining or fewer, and the window, got %+v", before.Remaining+1, after)
		}
	})
}

// A reservation of leased tokens is refunded by one call.
func TestStore_Adjust_Refund(t *testing.T) {
	bubbleEach(t, hourly, func(x *fixture, rule core.Rule) {
		s := x.lease()
		l := x.limiter(s, rule)
		x.admit(l, 500)
		calls := x.calls(func() { testkit.Must(x, testkit.Reserve(x, l, "k", 5).Refund(x.Context())) })
		x.expect(1, 1, calls, "call for the refund")
		x.expect(49_500-8, 49_500+8, x.left(rule)+int(s.Stats().Held), "events left")
	})
}

// An Undo while a call is under way keeps the bundle that the call brings.
func TestStore_Adjust_UndoDuringFetch(t *testing.T) {
	bubble(t, func(x *fixture) {
		x.behind.Set(storetest.Delay(trip, 0))
		s, rule := x.lease(), core.FixedWindow("w", core.PerDay(6000))
		l := x.limiter(s, rule)
		admitted := 0
		for done := make(chan bool); ; admitted++ {
			go func() { done <- x.ask(l, 1).Allowed }()
			synctest.Wait()
			if admitted%10 == 0 { // an Undo that frees nothing
				undo := []driver.Charge{{Key: "k", Rule: testkit.Compiled(rule), Op: driver.Undo, Cost: 1}}
				testkit.Must(x, s.Adjust(x.Context(), undo))
			}
			if !<-done {
				break
			}
		}
		x.expect(5800, 6000, admitted+int(s.Stats().Held)+x.left(rule), "events admitted or left")
	})
}

// An Adjust through any plan reaches the accounts of every plan of its length, and no other account.
func TestStore_Adjust_Plans(t *testing.T) {
	for _, tt := range []struct {
		name      string
		op        driver.Op
		cost      int
		exhausted bool // before the Adjust
		held      bool // afterwards
	}{
		{"reset", driver.Reset, 1, false, false},
		{"debit", driver.Debit, 5_000_000, false, false},
		{"credit", driver.Credit, 5_000_000, true, true},
		{"undo", driver.Undo, 1_000_000, true, true},
	} {
		for plan, name := range []string{"base", "pro", "small"} {
			t.Run(tt.name+" by "+name, func(t *testing.T) {
				bubbleEach(t, withPlans(core.PerHour(50_000)), func(x *fixture, rule core.Rule) {
					s := x.lease()
					base, other := x.limiter(s, rule), core.TokenBucket("other", core.PerHour(50_000))
					pro := base.Plan("pro")
					x.hold(s, other)
					kept := s.Stats().Held
					x.admit(base, 200)
					x.admit(pro, 200)
					synctest.Wait()
					c := driver.Charge{Key: "k", Rule: plansOf(x, rule)[plan], Op: tt.op, Cost: tt.cost}
					if tt.exhausted {
						debit := c
						debit.Op, debit.Cost = driver.Debit, 1_000_000
						debits := []driver.Charge{debit}
						testkit.Must(x, x.memory.Adjust(x.Context(), debits))
						c.Receipt = debits[0].Receipt
						x.drain(pro)
						x.drain(base)
					} else if s.Stats().Held < kept+20 {
						x.Fatalf("expected tokens that are held, got %+v", s.Stats())
					}
					testkit.Must(x, s.Adjust(x.Context(), []driver.Charge{c}))
					if held := s.Stats().Held; !tt.exhausted && held != kept {
						x.Errorf("expected %d tokens that are held, got %d", kept, held)
					}
					for name, l := range map[string]*core.Limiter{"without a plan": base, "pro": pro} {
						if d := x.ask(l, 1); d.Allowed != (tt.op != driver.Debit) {
							x.Errorf("%s: got %+v", name, d.State(0))
						}
					}
				})
			})
		}
	}
}
