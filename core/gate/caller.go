package gate

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/argument"
	"github.com/weir-go/weir/keyfunc"
)

// Caller returns a key function for a look-up that finds the key and the plan of the caller together, such as the row
// of an API key in a database:
//
//	caller := gate.Caller(func(ctx context.Context, r *http.Request) (key, plan string, err error) {
//		account, err := accounts.Find(ctx, r.Header.Get("X-API-Key"))
//		return keyfunc.UserKey(account.ID), account.Plan, err
//	})
//	limit := nethttplimit.Limit(store, api, caller)
//
// The key and err are those of a key function, and the plan is that of [Plan]: "" means the limits without a plan. A
// gate calls find at most once for a request if one of its limiters has plans, also if several have the result as their
// key. find must be safe for concurrent use.
//
// The result can be an argument of [keyfunc.FirstOf] and [keyfunc.Join], whose other functions get a context with the
// values of that of the framework. If the gate or the limiter has an option Plan, that determines the plan. Caller
// panics if find is nil.
func Caller(find func(ctx context.Context, r *http.Request) (key, plan string, err error)) keyfunc.Func {
	argument.NotNil("gate: Caller", "function", find)
	hasCallers.Store(true)
	return func(ctx context.Context, r *http.Request) (string, error) {
		c, ok := ctx.Value(callerKey{}).(*callerContext)
		if !ok { // nothing needs the plan
			key, _, err := find(ctx, r)
			return key, err
		}
		if c.find != &find {
			c.key, c.found, c.err = find(c.Context, r)
			c.find = &find
		}
		if c.err == nil {
			c.plan = c.found
		}
		return c.key, c.err
	}
}

// hasCallers reports whether the program has called Caller. Without one, key functions always get the context of the
// framework itself.
var hasCallers atomic.Bool

// A callerContext is the context of the key functions of a request, some of which may be results of Caller.
type callerContext struct {
	context.Context
	find       *func(context.Context, *http.Request) (key, plan string, err error) // whose results are key, found and err, or nil
	key, found string
	err        error
	plan       string // that a Caller has found for the key function that runs
}

// callerFor returns a callerContext around ctx if a limiter has plans and no plan function, and otherwise nil. first is
// the limiter of the first key function, and all that of all routes, or nil.
func (g *gate) callerFor(ctx context.Context, first, all *core.Limiter) *callerContext {
	if !hasCallers.Load() {
		return nil
	}
	for i := range g.asks {
		l := g.asks[i].limiter
		if i == 0 {
			l = first
		}
		if g.asks[i].plan == nil && (inner.HasPlans(l) || i == 0 && all != nil && inner.HasPlans(all)) {
			return &callerContext{Context: ctx}
		}
	}
	return nil
}

type callerKey struct{}

// Value implements [context.Context].
func (c *callerContext) Value(key any) any {
	if _, ok := key.(callerKey); ok {
		return c
	}
	return c.Context.Value(key)
}

// Param is for [keyfunc.PathValue].
func (c *callerContext) Param(name string) string {
	if p, ok := c.Context.(interface{ Param(name string) string }); ok {
		return p.Param(name)
	}
	return ""
}

// findKey returns the key that key finds for r. c may be nil.
func (c *callerContext) findKey(ctx context.Context, r *http.Request, key keyfunc.Func) (string, error) {
	if c == nil {
		return key(ctx, r)
	}
	c.plan = ""
	return key(c, r)
}

// planFor returns the plan that a Caller has found for the last key, or "" if l has no plans.
func (c *callerContext) planFor(l *core.Limiter) string {
	if c == nil || !inner.HasPlans(l) {
		return ""
	}
	return c.plan
}
