package gate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfunc"
)

// decide calls the key functions of the gate, and charges the keys in one decision, or as [steps] describes.
// first is the limiter of the first key function, and all that of all routes for the same key, or nil. decide
// sets e.Decision, or returns the Rejection of a request about which none could be made, or neither for a
// request that is let through undecided. A denied request has no Rejection yet: see apply.
//
// The returned record, which is rec or another one in its place, has the decision. It has places only if the
// request is admitted.
func (rec *record) decide(ctx context.Context, h http.Header, r *http.Request, first, all *core.Limiter, e *Event) (*record, *Rejection) {
	g, cost := rec.gate, 1
	if g.cost != nil {
		cost = g.cost(ctx, r)
	}
	var few [2]core.Ask
	known := few[:0] // each limiter, key and plan once
	for i := range g.asks {
		known = append(known, core.Ask{})
		next := &known[len(known)-1] // is filled in place: to copy it just after it was written takes 10 ns
		next.Limiter, next.Cost, next.MaxDelay = g.asks[i].limiter, cost, g.maxDelay
		if i == 0 {
			next.Limiter = first
		}
		err := g.asks[i].identify(ctx, r, next)
		if err != nil && isNotLimited(err) {
			known = known[:len(known)-1]
			continue
		}
		exhausted := i < len(g.asks)-1 && g.exhausted.has(next.Limiter, next.Key)
		if i == 0 && all != nil && all != first && err == nil {
			known, err = g.asks[0].appendAll(ctx, r, known, all)
			exhausted = exhausted || len(known) > 1 && len(g.asks) > 1 && g.exhausted.has(all, known[1].Key)
		}
		if err != nil || g.readsBody || exhausted {
			return decideSteps(ctx, rec, h, r, e, cost, known, i, all, err)
		}
		if len(known) > 1 {
			known = distinct(known)
		}
	}
	return rec, rec.decideAll(h, r, e, known, all)
}

// decideAll decides about all keys of a request. all is as for decide.
func (rec *record) decideAll(h http.Header, r *http.Request, e *Event, known []core.Ask, all *core.Limiter) *Rejection {
	if len(known) == 0 { // keyfunc.ErrNotLimited
		return nil
	}
	if err := rec.reserve(r.Context(), e, known); err != nil {
		return rec.undecidable(h, r, e, err)
	}
	rec.gate.exhausted.addFrom(rec.gate.asks, all, known, &e.Decision, false)
	return nil
}

// undecidable returns the Rejection of a request about which the Store could not decide, or nil if the request
// is let through.
func (rec *record) undecidable(h http.Header, r *http.Request, e *Event, err error) *Rejection {
	e.Decision = core.Decision{}
	return rec.gate.reject(e, h, r, err, storeFailure(r, err, rec.gate.failClosed))
}

// isNotLimited reports whether err says that a request is not limited. The error of an invalid token may
// contain an ErrNotLimited of the function that returns the keys of tokens.
func isNotLimited(err error) bool {
	return errors.Is(err, keyfunc.ErrNotLimited) && !errors.Is(err, keyfunc.ErrNoKey)
}

// identify sets the cost, the key and the plan of next.
func (a *ask) identify(ctx context.Context, r *http.Request, next *core.Ask) (err error) {
	if a.cost != nil {
		next.Cost = a.cost(ctx, r)
	}
	if next.Peek = next.Cost == 0; next.Cost < 0 {
		return fmt.Errorf("%w: %d", core.ErrNegativeCost, next.Cost)
	}
	if next.Key, err = a.key(ctx, r); err != nil {
		return err
	}
	if next.Key == "" {
		return errEmptyKey
	}
	if a.plan != nil && inner.HasPlans(next.Limiter) {
		err = a.choosePlan(ctx, r, next)
	}
	return err
}

// choosePlan sets the plan of next.
func (a *ask) choosePlan(ctx context.Context, r *http.Request, next *core.Ask) (err error) {
	if next.Plan, err = a.plan(ctx, r); errors.Is(err, keyfunc.ErrNoKey) {
		next.Plan, err = "", nil
	}
	return err
}

// appendAll appends an ask for the key of known, that of a, to known: that of all, the limiter of all routes.
// The plan function is called unless it was for the limiter of a. After an error, the key counts as missing for
// all.
func (a *ask) appendAll(ctx context.Context, r *http.Request, known []core.Ask, all *core.Limiter) (_ []core.Ask, err error) {
	next := known[0]
	if next.Limiter = all; !inner.HasPlans(all) {
		next.Plan = ""
	}
	if a.plan != nil && !inner.HasPlans(known[0].Limiter) && inner.HasPlans(all) {
		if err = a.choosePlan(ctx, r, &next); err != nil && isNotLimited(err) {
			return known, nil
		}
	}
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

// reserve decides about asks. It sets the decision of e and, for the option OnDecision, adds the time to that of e.
func (rec *record) reserve(ctx context.Context, e *Event, asks []core.Ask) (err error) {
	var begun time.Time
	if rec.gate.onDecision != nil {
		begun = time.Now()
	}
	if e.Decision, err = rec.reservation.Reserve(ctx, asks...); rec.gate.onDecision != nil {
		e.StoreTime += time.Since(begun)
	}
	return err
}
