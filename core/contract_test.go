package core_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

var errEndedContext = errors.New("a call of a store with a context that has ended")

// documented are the errors of package core that calls may return over a working Store.
var documented = []error{
	core.ErrEmptyKey, core.ErrNegativeCost, core.ErrInvalidAsk,
	core.ErrNeverAdmitted, core.ErrDeadlineTooNear, context.Canceled, context.DeadlineExceeded,
}

// A caller makes random calls of limiters that share rules.
type caller struct {
	*rand.Rand
	rules        []core.Rule
	limiters     []*core.Limiter
	reservations []*core.Reservation
}

func newCaller(seed uint64, s, other core.Store) *caller {
	c := &caller{Rand: rand.New(rand.NewPCG(seed, 23))}
	spare := func() float64 { return c.Float64() }
	limit, slow := core.Per(5, time.Second), core.Per(3, time.Minute)
	c.rules = []core.Rule{
		core.TokenBucket("bucket", limit), core.SlidingWindow("counter", slow).SubWindows(7),
		core.TokenBucket("shadow", slow).Shadow(), core.SlidingLog("soft", limit).Soft(50),
		core.TokenBucket("elastic", limit).Elastic(spare, 4), core.LeakyBucket("elastic queue", limit).Elastic(spare, 2),
		core.TokenBucket("bucket", limit), core.TokenBucket("elastic", limit).Elastic(spare, 4), // equal rules
	}
	for _, a := range testkit.Algorithms {
		c.rules = append(c.rules, a.Rule(a.Name, slow))
	}
	for i, r := range c.rules {
		c.rules[i] = r.Plan("faster", core.Per(9, r.Limit().Per)).Plan("longer", core.Per(3, time.Hour)).
			Plan("staff", core.Unlimited).Plan("banned", core.Blocked)
	}
	for range 4 {
		c.limiters = append(c.limiters, core.Must(core.New(s, c.someRules()...)))
	}
	c.limiters = append(c.limiters, core.Must(core.New(other, c.rules[0])))
	return c
}

// someRules returns rules of different names.
func (c *caller) someRules() (some []core.Rule) {
	for range 1 + c.IntN(4) {
		r := c.rules[c.IntN(len(c.rules))]
		if !slices.ContainsFunc(some, func(o core.Rule) bool { return o.Name() == r.Name() }) {
			some = append(some, r)
		}
	}
	return some
}

// plan returns the name of a plan, most often of none.
func (c *caller) plan() string {
	return pick(c, "", "", "", "", "faster", "faster", "longer", "staff", "banned", "other")
}

func pick[T any](c *caller, from ...T) T { return from[c.IntN(len(from))] }

func (c *caller) limiter() *core.Limiter {
	if c.IntN(50) == 0 {
		return c.limiters[len(c.limiters)-1]
	}
	l := c.limiters[c.IntN(len(c.limiters)-1)]
	switch c.IntN(8) {
	case 0:
		return l.Plan(c.plan())
	case 1:
		return core.Must(l.Variant(l.Rules()[0].Divide(2)))
	case 2:
		return l.Choose(func(context.Context, string) (*core.Limiter, error) { return l.Plan(c.plan()), nil })
	}
	return l
}

func (c *caller) key() string { return pick(c, "a", "a", "a", "b", "b", "b", "c", "c", "c", "") }

func (c *caller) cost() int {
	return pick(c, 1, 1, 1, 2, 3, 5, 0, 0, 6, 100, math.MaxInt, -1, math.MinInt)
}

func (c *caller) asks() []core.Ask {
	asks := make([]core.Ask, c.IntN(6))
	for i := range asks {
		asks[i] = core.Ask{
			Limiter: c.limiter(), Key: c.key(), Cost: max(-1, c.cost()), Peek: c.IntN(4) == 0, Plan: c.plan(),
			MaxDelay: pick(c, 0, 0, 0, 1, time.Millisecond, time.Second, math.MaxInt64, -1),
		}
		if c.IntN(30) > 0 { // most asks are valid, so that most decisions reach the Store
			asks[i].Key = pick(c, "a", "b", "c")
			asks[i].Cost, asks[i].MaxDelay = max(0, asks[i].Cost), max(0, asks[i].MaxDelay)
		}
		if c.IntN(100) == 0 {
			asks[i].Limiter = nil
		}
	}
	return asks
}

// context returns a context of a request: some have a deadline, and some have ended.
func (c *caller) context(ctx context.Context) (context.Context, context.CancelFunc) {
	switch c.IntN(16) {
	case 0:
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx, cancel
	case 1:
		return context.WithTimeout(ctx, 0)
	case 2, 3, 4, 5, 6:
		return context.WithTimeout(ctx, time.Duration(c.Int64N(int64(5*time.Second))))
	}
	return context.WithCancel(ctx)
}

func (c *caller) reserve(r *core.Reservation, err error) error {
	if err == nil {
		c.reservations = append(c.reservations, r)
	}
	return err
}

// call makes one call.
func (c *caller) call(ctx context.Context) (err error) {
	ctx, cancel := c.context(ctx)
	defer cancel()
	l, key, n := c.limiter(), c.key(), c.cost()
	var r *core.Reservation
	if len(c.reservations) > 0 {
		r = c.reservations[c.IntN(len(c.reservations))]
	}
	switch c.IntN(16) {
	case 0:
		_, err = l.Allow(ctx, key)
	case 1:
		_, err = l.AllowN(ctx, key, n)
	case 2:
		_, err = l.Peek(ctx, key)
	case 3:
		_, err = l.Reset(ctx, key)
	case 4:
		err = l.Credit(ctx, key, n)
	case 5:
		err = l.Debit(ctx, key, n)
	case 6:
		err = l.WaitN(ctx, key, n)
	case 7:
		_, err = core.AllowTogether(ctx, c.asks()...)
	case 8:
		err = c.reserve(l.Reserve(ctx, key, n))
	case 9:
		err = c.reserve(core.ReserveTogether(ctx, c.asks()...))
	case 10:
		err = c.reserve(l.ReserveAtMost(ctx, key, n))
	case 11:
		err = l.Replace(c.someRules()...)
	default:
		if r == nil {
			return nil
		}
		switch c.IntN(4) {
		case 0:
			err = r.SettleFor(ctx, l, n)
		case 1:
			err = r.Settle(ctx, n) // the charges of a Reservation are summed in an int
		case 2:
			err = r.Refund(ctx)
		case 3:
			err = inner.RefundDelayed(r, ctx)
		}
	}
	return err
}

// The charges that reach a Store keep the contract of driver.Store, whatever an application calls.
func TestLimiter_ContractOfStores(t *testing.T) {
	testkit.WithoutRace(t)
	ops, several := make(map[driver.Op]int), 0
	met := make(map[error]int)
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			var s, other storetest.Fake // which return an error for charges that break the contract
			for _, f := range []*storetest.Fake{&s, &other} {
				f.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
					if ctx.Err() != nil {
						return errEndedContext
					}
					if len(charges) > 1 {
						several++
					}
					return next(ctx, charges)
				})
			}
			c := newCaller(seed, &s, &other)
			for i := range 100 {
				time.Sleep(time.Duration(c.Int64N(int64(300 * time.Millisecond))))
				err := c.call(t.Context())
				at := slices.IndexFunc(documented, func(d error) bool { return errors.Is(err, d) })
				switch {
				case err == nil:
				case at >= 0:
					met[documented[at]]++
				default:
					t.Fatalf("seed %d, call %d: got %v, expected an error that core documents", seed, i, err)
				}
			}
			for op := driver.Spend; op <= driver.Undo; op++ {
				ops[op] += s.Charges(op) + other.Charges(op)
			}
		})
	}
	for op := driver.Spend; op <= driver.Undo; op++ {
		if ops[op] < 1000 {
			t.Errorf("op %d: got %d charges, expected at least 1000", op, ops[op])
		}
	}
	if several < 1000 {
		t.Errorf("got %d calls with several charges, expected at least 1000", several)
	}
	for _, err := range documented {
		if met[err] == 0 {
			t.Errorf("got no call that fails with %q", err)
		}
	}
}
