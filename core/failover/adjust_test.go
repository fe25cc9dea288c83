package failover_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
)

// perYear does not refill during a test.
var perYear = core.SlidingLog("year", core.Per(100, 365*24*time.Hour))

// A pair is a Store, its two stores, and a limiter of 100 a year.
type pair struct {
	*failover.Store
	t               *testing.T
	primary, backup *flaky
	year            *core.Limiter
}

// eachPair runs f in a bubble for every way to call a primary.
func eachPair(t *testing.T, f func(p *pair), opts ...failover.Option) {
	eachPrimary(t, func(t *testing.T, primary *flaky, under core.Store) {
		backup := newFlaky(well)
		s := failover.New(under, backup, opts...)
		defer s.Close()
		defer primary.set(well)
		f(&pair{s, t, primary, backup, limiter(t, s, perYear)})
	})
}

// used checks what the stores have counted of key.
func (p *pair) used(key string, primary, backup int) {
	p.t.Helper()
	if got := 100 - left(p.t, p.primary.Store, perYear, key); got != primary {
		p.t.Errorf("the primary has counted %d, want %d", got, primary)
	}
	if got := 100 - left(p.t, p.backup.Store, perYear, key); got != backup {
		p.t.Errorf("the backup has counted %d, want %d", got, backup)
	}
}

func (p *pair) goAway() {
	p.t.Helper()
	p.primary.set(refuse)
	until(p.t, p.Store, failover.Backup)
}

func (p *pair) comeBack() {
	p.t.Helper()
	p.primary.set(well)
	until(p.t, p.Store, failover.Primary)
}

func (p *pair) reserve(n int) *core.Reservation {
	p.t.Helper()
	r, err := p.year.Reserve(context.Background(), "k", n)
	if err != nil || !r.Decision().Allowed {
		p.t.Fatal(r, err)
	}
	return r
}

func (p *pair) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Error(err)
	}
}

// reset resets key and returns whether anything was found.
func (p *pair) reset(key string) bool {
	p.t.Helper()
	found, err := p.year.Reset(context.Background(), key)
	p.must(err)
	return found
}

func (p *pair) unavailable(err error) {
	p.t.Helper()
	if !errors.Is(err, core.ErrUnavailable) {
		p.t.Errorf("the error is %v, want core.ErrUnavailable", err)
	}
}

// What is undone is undone where it was taken.
func TestUndoKnowsWhere(t *testing.T) {
	ctx := context.Background()
	eachPair(t, func(p *pair) {
		before, other := p.reserve(5), p.reserve(1)
		p.used("k", 6, 0)
		p.must(other.Refund(ctx))
		p.used("k", 5, 0)
		p.goAway()
		during := p.reserve(7)
		p.used("k", 5, 7)
		p.primary.set(hang)
		begun := time.Now()
		if p.unavailable(before.Refund(ctx)); time.Since(begun) != 0 {
			t.Errorf("a primary that is away held up a refund for %v", time.Since(begun))
		}
		p.primary.set(refuse)
		p.used("k", 5, 7)
		p.must(p.reserve(2).Refund(ctx))
		p.used("k", 5, 7)
		if n := p.Stats().Lost; n != 1 {
			t.Errorf("%d refunds were lost, want 1", n)
		}
		later := p.reserve(1)
		p.comeBack()
		p.must(during.Settle(ctx, 3))
		p.used("k", 5, 4)
		p.must(later.Settle(ctx, 3)) // 1 on the backup, and 2 more where it goes on
		p.used("k", 7, 4)
		p.must(later.Refund(ctx))
		p.used("k", 5, 3)
	})
}

// A refund that fails has perhaps been made, and is not made again.
func TestAdjust_PrimaryFails(t *testing.T) {
	ctx := context.Background()
	for _, m := range []mood{refuse, lose} {
		eachPair(t, func(p *pair) {
			p.reserve(10)
			held := p.reserve(10)
			limiter(t, p.backup, perYear).AllowN(ctx, "k", 50)
			p.primary.set(m)
			p.unavailable(p.year.Credit(ctx, "k", 1))
			p.unavailable(held.Settle(ctx, 7))
			p.must(p.year.Debit(ctx, "k", 9))
			switch m {
			case refuse:
				p.used("k", 20, 59)
			case lose:
				p.used("k", 20-1-3+9, 59) // charged twice rather than never
			}
			p.reset("k")
			p.goAway()
			p.used("k", map[mood]int{refuse: 20, lose: 0}[m], 0)
		})
	}
}

// What the backup says of a Settle that the primary failed is the answer.
func TestStateOfASettle(t *testing.T) {
	eachPair(t, func(p *pair) {
		p.primary.set(refuse)
		rule := perYear.Compiled()
		debit := []driver.Charge{{Key: "k", Rule: rule, Op: driver.Debit, Cost: 3}}
		if p.must(p.Adjust(context.Background(), debit)); debit[0].Verdict.Remaining != 97 || debit[0].Verdict.Rule != rule {
			t.Errorf("%+v", debit[0].Verdict)
		}
	})
}

func TestAdjust_PrimaryAway(t *testing.T) {
	ctx := context.Background()
	eachPair(t, func(p *pair) {
		p.reserve(10)
		p.goAway()
		p.reserve(20)
		p.must(p.year.Credit(ctx, "k", 3))
		p.must(p.year.Debit(ctx, "k", 5))
		p.used("k", 10, 22)
		p.reset("k")
		p.used("k", 10, 0)
	})
}

// What a Reset has forgotten does not count in the next outage either. That the
// backup cannot be told is nothing that the caller has to know.
func TestResetReachesBoth(t *testing.T) {
	eachPair(t, func(p *pair) {
		p.reserve(10)
		p.goAway()
		p.reserve(20)
		p.comeBack()
		p.reset("k")
		p.used("k", 0, 0)
		p.reserve(10)
		p.backup.set(refuse)
		p.reset("k")
		p.backup.set(well)
		p.used("k", 0, 0)
		p.reserve(10)
		p.goAway()
		p.reserve(20)
		p.primary.set(well)
		until(t, p.Store, failover.Recovering) // when hardly a call goes to the primary
		p.reset("k")
		p.used("k", 0, 0)
	})
}

// Found is about both stores, if both can be called.
func TestStore_AdjustResetFound(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name            string
		primary, backup int // what is used before the Reset
		away            bool
		backupFails     bool
		want            bool
	}{
		{name: "nothing used"},
		{name: "primary", primary: 1, want: true},
		{name: "backup", backup: 1, want: true},
		{name: "both", primary: 1, backup: 1, want: true},
		{name: "primary, which is away", primary: 1, away: true},
		{name: "backup, and the primary is away", backup: 1, away: true, want: true},
		{name: "primary, and the backup fails", primary: 1, backupFails: true, want: true},
		{name: "backup, which fails", backup: 1, backupFails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachPair(t, func(p *pair) {
				for store, n := range map[*flaky]int{p.primary: c.primary, p.backup: c.backup} {
					if n > 0 {
						_, err := limiter(t, store.Store, perYear).AllowN(ctx, "k", n)
						p.must(err)
					}
				}
				if c.away {
					p.goAway()
				}
				if c.backupFails {
					p.backup.set(refuse)
				}
				if got := p.reset("k"); got != c.want {
					t.Errorf("found is %v, want %v", got, c.want)
				}
			})
		})
	}
}

// A store is not called for a caller that has left.
func TestStore_AdjustCallerLeaves(t *testing.T) {
	eachPair(t, func(p *pair) {
		p.primary.set(hang)
		ctx, cancel := context.WithTimeout(context.Background(), deadline/2)
		defer cancel()
		if _, err := p.year.Reset(ctx, "k"); err != context.DeadlineExceeded {
			t.Errorf("the error is %v, want %v", err, context.DeadlineExceeded)
		}
		if n := p.backup.calls.Load(); n != 0 {
			t.Errorf("%d calls of the backup, want 0", n)
		}
	})
}

// One call may be about what both have taken.
func TestUndoOnBoth(t *testing.T) {
	ctx := context.Background()
	eachPair(t, func(p *pair) {
		rule := perYear.Compiled()
		var first, second driver.Receipt
		do := func(c ...driver.Charge) []driver.Charge {
			t.Helper()
			p.must(storetest.Do(ctx, p, c))
			return c
		}
		do(driver.Charge{Key: "k", Rule: rule, Cost: 10, Receipt: &first})
		p.goAway()
		do(driver.Charge{Key: "other", Rule: rule, Cost: 20, Receipt: &second})
		p.comeBack()
		adjusted := do(
			driver.Charge{Key: "third", Rule: rule, Op: driver.Debit, Cost: 30},
			driver.Charge{Key: "other", Rule: rule, Op: driver.Undo, Cost: 20, Receipt: &second},
			driver.Charge{Key: "k", Rule: rule, Op: driver.Undo, Cost: 10, Receipt: &first},
			driver.Charge{Key: "fourth", Rule: rule, Op: driver.Reset},
		)
		p.used("k", 0, 0)
		p.used("other", 0, 0)
		p.used("third", 30, 0)
		for i, want := range []int{70, 100, 100, 100} {
			if got := adjusted[i].Verdict; got.Remaining != want || got.Rule != rule {
				t.Errorf("charge %d has %+v, want %d left", i, got, want)
			}
		}
	})
}

// A receipt that a primary has noted before it failed is not the backup's.
func TestReceiptOfAnUnknownFate(t *testing.T) {
	ctx := context.Background()
	eachPair(t, func(p *pair) {
		p.primary.set(lose)
		r := p.reserve(10)
		p.used("k", 10, 10)
		p.primary.set(well)
		p.must(r.Refund(ctx))
		p.used("k", 10, 0)
	})
}

// Nor is it Open's, which takes nothing.
func TestReceiptOfFailOpen(t *testing.T) {
	eachPair(t, func(p *pair) {
		p.primary.set(lose)
		receipt := driver.Receipt{At: 1, Origin: 8}
		p.must(p.Take(context.Background(), []driver.Charge{{Key: "k", Rule: perYear.Compiled(), Cost: 1, Receipt: &receipt}}))
		if want := (driver.Receipt{Origin: 1}); receipt != want {
			t.Errorf("the receipt is %+v, want %+v", receipt, want)
		}
	}, failover.FailOpenFor("year"))
}

// Open has taken nothing, and so gives nothing back, whoever decides by then.
func TestUndoOfFailOpen(t *testing.T) {
	ctx := context.Background()
	eachPair(t, func(p *pair) {
		p.reserve(10)
		p.goAway()
		r := p.reserve(1000)
		if p.used("k", 10, 0); r.Decision().State(0).Remaining != 100 {
			t.Errorf("%+v", r.Decision())
		}
		p.must(r.Refund(ctx))
		r = p.reserve(1000)
		p.comeBack()
		p.must(r.Refund(ctx))
		p.used("k", 10, 0)
	}, failover.FailOpenFor("year"))
}

// A Store of Stores of Stores.
func TestOriginsNest(t *testing.T) {
	ctx := context.Background()
	synctest.Test(t, func(t *testing.T) {
		first, second, third := newFlaky(well), newFlaky(well), newFlaky(well)
		inner := failover.New(first, second)
		defer inner.Close()
		s := failover.New(inner, third)
		defer s.Close()
		l := limiter(t, s, perYear)
		var all []*core.Reservation
		reserve := func() {
			r, err := l.Reserve(ctx, "k", 10)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		reserve()
		first.set(refuse)
		until(t, inner, failover.Backup)
		reserve()
		second.set(refuse)
		until(t, s, failover.Backup)
		reserve()
		stores := []*flaky{first, second, third}
		for _, f := range stores {
			f.set(well)
			if n := left(t, f.Store, perYear, "k"); n != 90 {
				t.Fatalf("%d left", n)
			}
		}
		until(t, s, failover.Primary)
		for i, r := range all {
			if err := r.Settle(ctx, 4); err != nil {
				t.Fatal(err)
			}
			if n := left(t, stores[i].Store, perYear, "k"); n != 96 {
				t.Errorf("store %d: %d left, want 96", i, n)
			}
		}
	})
}

func TestDeclareReachesBoth(t *testing.T) {
	primary, backup := memstore.New(), memstore.New()
	s := failover.New(primary, backup, failover.Instances(2))
	defer s.Close()
	limiter(t, s, core.TokenBucket("minute", core.PerMinute(10)))
	other := core.TokenBucket("minute", core.PerMinute(20))
	for name, store := range map[string]core.Store{"the failover": s, "the primary": primary, "the backup": backup} {
		if _, err := core.New(store, other); !errors.Is(err, core.ErrRuleConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The backup knows what it serves.
	if _, err := core.New(backup, core.TokenBucket("minute", core.PerMinute(5))); err != nil {
		t.Error(err)
	}
	limiter(t, failover.New(absent{}, failover.FailOpen), other)
}
