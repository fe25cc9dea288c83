package gate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/argument"
	"github.com/weir-go/weir/keyfunc"
)

// And adds another key and limiter to the gate. A request is admitted only if all limiters admit
// it, and is charged to all of them or to none. If two key functions return the same key for the
// same limiter, that key is charged once, and the decision contains its States once. And panics if
// l or key is nil. All limiters of a gate must use the same Store.
//
// The options [Cost], [CostOfBody] and [Plan] of And apply to l alone. Those of the gate apply to every
// limiter without its own. And panics if another option is given:
//
//	gate.And(tokensPerMinute, user, gate.Cost(estimate))
//
// Key functions run in order, starting with that of New. If a key function finds no key, the
// request is rejected and later key functions do not run. The keys found so far are still charged
// the [Cost] of the request, but at least 1. If this denies the request, the response is 429.
//
// Put cheap keys, such as addresses, before expensive ones, such as tokens. Put a key that all
// clients share last, so that requests without a token cannot use up its limit:
//
//	nethttplimit.New(perIP, ip, gate.And(perUser, user), gate.And(system, keyfunc.Constant("all")))
//
// The limit of an address then also bounds the bad tokens that a process verifies for it, except for
// a few. The gate remembers up to 8192 exhausted keys, whose limit has denied a request a short time
// ago, and charges them before it runs later key functions. Such a request takes two more Store calls
// if it is admitted: the early charge, and its refund before the decision about all keys. If it is
// denied, its decision may contain no States for other keys. A limiter with a [core.LeakyBucket] is
// only asked early, and not charged, because a queue does not always refund.
func And(l *core.Limiter, key keyfunc.Func, opts ...Option) Option {
	argument.NotNil("gate: And", "limiter", l)
	argument.NotNil("gate: And", "key function", key)
	var own options
	argument.Apply("gate: And", &own, opts)
	a := ask{limiter: l, key: key, cost: own.cost, body: own.costOfBody, plan: own.plan}
	own.cost, own.costOfBody, own.plan = nil, nil, nil
	if !reflect.ValueOf(own).IsZero() {
		panic("gate: And: only Cost, CostOfBody and Plan can be given for one limiter")
	}
	return option(func(o *options) { o.and = append(o.and, a) })
}

// An ask holds a limiter of a gate and the functions that find its key, cost and plan. cost is nil
// unless the limiter has a Cost of its own, and body unless it has a CostOfBody.
type ask struct {
	limiter *core.Limiter
	key     keyfunc.Func
	cost    func(context.Context, *http.Request) int // noCost with a body, or nil
	body    *bodyCost
	plan    keyfunc.Func
}

// isNotLimited reports whether err says that a request is not limited. The error of an invalid token may
// contain an ErrNotLimited of the function that returns the keys of tokens.
func isNotLimited(err error) bool {
	return errors.Is(err, keyfunc.ErrNotLimited) && !errors.Is(err, keyfunc.ErrNoKey)
}

// identify sets the cost, the key and the plan of next, and adds a look-up to known. The plan that a look-up has found is
// set even if the limiter of next has no plans: see withoutPlan.
func (a *ask) identify(ctx context.Context, r *http.Request, next *core.Ask, known *lookups) (err error) {
	if a.cost != nil {
		next.Cost = a.cost(ctx, r)
	}
	if next.Peek = next.Cost == 0; next.Cost < 0 {
		return fmt.Errorf("%w: %d", core.ErrNegativeCost, next.Cost)
	}
	if next.Key, err = a.key(ctx, r); err != nil {
		l, ok := err.(*lookup)
		if !ok {
			return err
		}
		if err = known.find(l, next); err != nil {
			return err
		}
	}
	if next.Key == "" {
		return errEmptyKey
	}
	if a.plan != nil {
		if next.Plan = ""; inner.HasPlans(next.Limiter) {
			err = a.choosePlan(ctx, r, next)
		}
	}
	return err
}

// withoutPlan removes the plan of a look-up from next if its limiter has no plans.
func withoutPlan(next *core.Ask) {
	if next.Plan != "" && !inner.HasPlans(next.Limiter) {
		next.Plan = ""
	}
}

// choosePlan sets the plan of next.
func (a *ask) choosePlan(ctx context.Context, r *http.Request, next *core.Ask) (err error) {
	if next.Plan, err = a.plan(ctx, r); errors.Is(err, keyfunc.ErrNoKey) {
		next.Plan, err = "", nil
	}
	return err
}

// appendAll appends an ask for the key of known, that of a, to known: that of all, the limiter of all routes.
// The plan function is called unless it was for the limiter of a; without one, the plan is that of a look-up. After an
// error, the key counts as missing for all.
func (a *ask) appendAll(ctx context.Context, r *http.Request, known []core.Ask, all *core.Limiter) (_ []core.Ask, err error) {
	next := known[0]
	next.Limiter = all
	if a.plan != nil && !inner.HasPlans(known[0].Limiter) && inner.HasPlans(all) {
		if err = a.choosePlan(ctx, r, &next); err != nil && isNotLimited(err) {
			return known, nil
		}
	}
	withoutPlan(&next)
	return append(known, next), err
}

// errEmptyKey is the error of a key function that returned an empty key. All requests with an empty
// key would share one bucket.
var errEmptyKey = fmt.Errorf("%w: the key function returned an empty key", keyfunc.ErrNoKey)

// distinct removes the last ask of known if another one has its limiter, key and plan. The larger cost
// counts.
func distinct(known []core.Ask) []core.Ask {
	n := len(known) - 1
	for i := range n {
		if o, last := &known[i], &known[n]; sameKey(o, last) {
			if last.Cost > o.Cost {
				*o = *last
			}
			return known[:n]
		}
	}
	return known
}

func sameKey(a, b *core.Ask) bool {
	return a.Limiter == b.Limiter && a.Key == b.Key && a.Plan == b.Plan
}
