package gate

import (
	"context"
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
