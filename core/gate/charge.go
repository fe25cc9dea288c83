package gate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/keyfunc"
)

// decide calls the key functions of the gate, and charges the keys in one decision. first is the
// limiter of the first key function. A decision without States lets the request through unless there
// is a Rejection. The record, which is rec or another one in its place, has the decision.
//
// The record has places only if the request is admitted.
//
// If a known key is exhausted, decide charges the known keys before the next key function runs, so that
// no token is verified for a request that these keys deny. When all keys are known, it refunds these
// charges, and decides about all keys together.
func (rec *record) decide(ctx context.Context, h http.Header, r *http.Request, first *core.Limiter, e *Event) (last *record, rejection *Rejection) {
	g, d, cost := rec.gate, &e.Decision, 1
	if g.cost != nil {
		cost = g.cost(ctx, r)
	}
	var few [2]core.Ask
	known := few[:0] // each limiter, key and plan once
	var (
		early   []earlyCharge
		charged int   // the number of known keys that these have charged
		failed  error // of the Store, which is not called again after an error
	)
	defer func() {
		if last == nil { // a function of the application panics
			for _, c := range early {
				c.rec.endPlaces()
			}
		}
	}()
	for i := range g.asks {
		known = append(known, core.Ask{})
		n := len(known) - 1
		next := &known[n] // is filled in place: to copy it just after it was written takes 10 ns
		next.Limiter, next.Cost, next.MaxDelay = g.asks[i].limiter, cost, g.maxDelay
		if i == 0 {
			next.Limiter = first
		}
		err := g.asks[i].identify(ctx, r, next)
		switch {
		// The error of an invalid token may contain an ErrNotLimited of the function that returns the keys
		// of tokens.
		case errors.Is(err, keyfunc.ErrNotLimited) && !errors.Is(err, keyfunc.ErrNoKey):
			known = known[:n]
			continue
		case errors.Is(err, core.ErrNegativeCost):
			refund(early)
			return rec, g.reject(e, h, r, err, keyFailure(r, err))
		case err != nil:
			if failed == nil {
				*d, failed = rec.chargeWithoutKey(e, known[charged:n], *next, err)
			}
			for _, c := range early {
				c.rec.endPlaces()
				decided := c.rec.reservation.Decision()
				g.addExhausted(known[c.from:c.to], &decided, true)
				if d.Len() == 0 {
					rec, *d = c.rec, decided
				}
			}
			rec.endPlaces()
			if d.Len() > 0 && !d.Allowed {
				return rec, nil
			}
			fields := *d
			*d = core.Decision{}
			return rec, rec.rejectWithoutKey(e, h, r, err, &fields, failed)
		}
		known = distinct(known)
		if failed != nil || i == len(g.asks)-1 || len(known) == charged || !g.exhausted.has(next.Limiter, next.Key) {
			continue
		}
		peek := hasQueue(known[charged:])
		*d, failed = rec.charge(r.Context(), e, known[charged:], func(a *core.Ask) {
			a.Peek = peek
			inner.AttemptUnlessDenied(a)
		})
		switch {
		case failed != nil || !d.Allowed:
		case peek:
			rec.reservation = core.Reservation{}
			continue
		default:
			early = append(early, earlyCharge{rec, charged, len(known)})
			charged, rec = len(known), newRecord(r, g)
			continue
		}
		refund(early)
		if early = nil; failed == nil {
			g.addExhausted(known[charged:], d, false)
			return rec, nil
		}
		if *d = (core.Decision{}); r.Context().Err() != nil {
			return rec, g.reject(e, h, r, failed, ended)
		}
	}
	if len(known) == 0 { // keyfunc.ErrNotLimited
		*d = core.Decision{}
		return rec, nil
	}
	if failed == nil {
		refund(early)
		*d, failed = rec.reserve(r.Context(), e, known)
	}
	if failed != nil {
		*d = core.Decision{}
		return rec, g.reject(e, h, r, failed, storeFailure(r, failed, g.failClosed))
	}
	g.addExhausted(known, d, false)
	return rec, nil
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
		if next.Plan, err = a.plan(ctx, r); errors.Is(err, keyfunc.ErrNoKey) {
			next.Plan, err = "", nil
		}
	}
	return err
}

// errEmptyKey is the error of a key function that returned an empty key. All requests with an empty
// key would share one bucket.
var errEmptyKey = fmt.Errorf("%w: the key function returned an empty key", keyfunc.ErrNoKey)

// distinct removes the last ask of known if another one has its limiter, key and plan. The larger cost
// counts.
func distinct(known []core.Ask) []core.Ask {
	n := len(known) - 1
	for i := range n {
		if o, last := &known[i], &known[n]; o.Limiter == last.Limiter && o.Key == last.Key && o.Plan == last.Plan {
			if last.Cost > o.Cost {
				*o = *last
			}
			return known[:n]
		}
	}
	return known
}

// charge charges known, each at least 1: a cost of zero must not make a request free if it has no other
// key. If mark is not nil, it changes the copies of known that are charged.
func (rec *record) charge(ctx context.Context, e *Event, known []core.Ask, mark func(*core.Ask)) (core.Decision, error) {
	charged := slices.Clone(known)
	for i := range charged {
		if charged[i].Peek = false; mark != nil {
			mark(&charged[i])
		}
	}
	return rec.reserve(ctx, e, charged)
}

// reserve decides about asks, and adds the time to that of e, for the option OnDecision.
func (rec *record) reserve(ctx context.Context, e *Event, asks []core.Ask) (core.Decision, error) {
	if rec.gate.onDecision == nil {
		return rec.reservation.Reserve(ctx, asks...)
	}
	begun := time.Now()
	defer func() { e.StoreTime += time.Since(begun) }()
	return rec.reservation.Reserve(ctx, asks...)
}

// hasQueue reports whether one of known has a leaky bucket. An early charge of such a rule could not be
// refunded while later requests are in the queue. Concurrent requests that come when one place is free
// therefore all see it.
func hasQueue(known []core.Ask) bool {
	return slices.ContainsFunc(known, func(a core.Ask) bool {
		return slices.ContainsFunc(a.Limiter.Rules(), func(r core.Rule) bool { return r.Algorithm() == driver.LeakyBucket })
	})
}

// An earlyCharge is the charge of some of the known keys, the last of which is exhausted.
type earlyCharge struct {
	rec      *record
	from, to int // the indexes of the keys
}

// refund refunds early charges. An error is logged.
func refund(early []earlyCharge) {
	for _, e := range early {
		ctx := e.rec.detached()
		if err := e.rec.reservation.Refund(ctx); err != nil {
			e.rec.gate.log.warn(ctx, "weir: the cost of a request could not be refunded", err, http.StatusTooManyRequests)
		}
	}
}

// chargeWithoutKey charges a request that has no key for next; missing is the error of the key
// function. It charges the known keys and the partial key that the error may contain (see
// [keyfunc.Join]). If only the partial key denies the request, the known keys are charged nevertheless,
// because the key function has run. The charge ignores the end of the request's context; otherwise a
// client could avoid it by hanging up.
func (rec *record) chargeWithoutKey(e *Event, known []core.Ask, next core.Ask, missing error) (d core.Decision, err error) {
	ctx, all := rec.detached(), known
	var partial interface {
		error
		PartialKey() string
	}
	if errors.As(missing, &partial) {
		next.Key, next.Plan = partial.PartialKey(), ""
		all = append(slices.Clip(known), next)
	}
	if len(all) == 0 {
		return d, nil
	}
	if d, err = rec.charge(ctx, e, all, nil); err != nil {
		return d, err
	}
	alone := d
	if !d.Allowed && len(known) > 0 && len(all) > len(known) {
		again := newRecord(rec.original, rec.gate)
		if alone, err = again.charge(ctx, e, known, inner.Attempt); err != nil {
			return d, err
		}
		again.endPlaces()
	}
	rec.gate.addExhausted(known, &alone, true)
	return d, nil
}

// rejectWithoutKey rejects a request whose key function has returned err. The header fields describe d,
// the decision about its other keys. An error of the Store does not change the response.
func (rec *record) rejectWithoutKey(e *Event, h http.Header, r *http.Request, err error, d *core.Decision, failed error) *Rejection {
	g, f := rec.gate, keyFailure(r, err)
	if failed != nil && g.onError == nil {
		g.log.warn(r.Context(), "weir: the store could not charge a request without a key", failed, f.status)
	}
	rejection := g.reject(e, h, r, err, f)
	if rejection != nil {
		rec.writeFields(h, d)
	}
	return rejection
}
