package gate

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/requestbody"
)

// Steps are those of a decision about a request in more than one: because a key is exhausted, because a key function
// has failed, or because the cost is in the body (see [CostOfBody]).
//
// If a known key is exhausted, the known keys are charged before the next key function runs, so that no
// token is verified for a request that these keys deny. When all keys are known, these charges are
// refunded, and the gate decides about all keys together. Before it reads the body, it asks about all keys without
// a charge. If the cost of the body alone is denied, the other keys are charged: see chargeForBody.
type steps struct {
	rec   *record // of the next charge, and of the decision about all keys
	h     http.Header
	r     *http.Request
	e     Event
	known []core.Ask // each limiter, key and plan once
	i     int        // the index of the last key function that was called
	all   *core.Limiter

	lookups lookups

	ofBody []askOfBody

	charges []stepCharge
	charged int   // the number of known keys that these have charged
	failed  error // of the Store, after which nothing more is charged
	found   bool  // the known asks and their costs are those of the decision
}

// findInSteps is the rest of the loop of the method decide of rec after the key function of the i-th ask, the last of
// known, or of that of all routes for the same key. all is as for decide. err is the error of this function; if it is
// nil, its key is exhausted or the gate reads the body. The results are the record for the decision, the known asks with
// their costs, and those whose body was read. Without known asks, nothing remains to be decided: e.Decision denies the
// request, or it has the Rejection, or is let through.
//
// The steps have copies of known and e, because with pointers to them every request would allocate them.
func findInSteps(ctx context.Context, rec *record, h http.Header, r *http.Request, e *Event, cost int, known []core.Ask, i int, all *core.Limiter, looked lookups, err error) (last *record, found []core.Ask, ofBody []askOfBody, rejection *Rejection) {
	w := steps{rec: rec, h: h, r: r, known: slices.Clone(known), i: i, all: all, lookups: looked}
	if err != nil {
		last, rejection = w.withoutKey(err)
	} else if last, rejection = w.find(ctx, cost); w.found {
		found = w.known
	}
	*e = w.e
	return last, found, w.ofBody, rejection
}

// A stepCharge is the charge of some of the known keys, the last of which is exhausted.
type stepCharge struct {
	rec      *record
	from, to int // the indexes of the keys
}

// find calls the key functions after the last one, which has found a key, and finds the costs in the body. It sets
// found, unless the request is denied or rejected before.
func (w *steps) find(ctx context.Context, cost int) (last *record, rejection *Rejection) {
	g := w.rec.gate
	reading := false
	defer func() {
		if last == nil { // a function of the application panics
			if reading {
				w.withoutKey(&costError{errPanic})
			}
			for _, c := range w.charges {
				endPlaces(c.rec)
			}
		}
	}()
	of := 1 // known asks of the last key function
	if w.i == 0 {
		of = len(w.known)
	}
	for exhausted := w.add(of); ; {
		if exhausted {
			if rejection, done := w.ask(false); done {
				return w.rec, rejection
			}
		}
		if w.i++; w.i == len(g.asks) {
			break
		}
		w.known = append(w.known, core.Ask{Limiter: g.asks[w.i].limiter, Cost: cost, MaxDelay: g.maxDelay})
		next := &w.known[len(w.known)-1]
		switch err := g.asks[w.i].identify(ctx, w.r, next, &w.lookups); {
		case isNotLimited(err):
			w.known, exhausted = w.known[:len(w.known)-1], false
		case err != nil:
			return w.withoutKey(err)
		default:
			withoutPlan(next)
			exhausted = w.add(1)
		}
	}
	hasBody := len(w.ofBody) > 0 && !requestbody.IsEmpty(w.r)
	if hasBody {
		if rejection, done := w.ask(true); done {
			return w.rec, rejection
		}
	}
	if w.failed != nil {
		return w.rec, w.rec.undecidable(w.h, w.r, &w.e, w.failed)
	}
	reading = hasBody
	if err := w.addCosts(ctx); err != nil {
		return w.withoutKey(err)
	}
	if !hasBody {
		w.ofBody = nil
	}
	w.refund()
	w.e.Decision, w.found = core.Decision{}, true
	return w.rec, nil
}

// chargeForBody charges a request that e.Decision denies, for the body that was read for the costs of the asks ofBody of
// known. It charges the other asks, at least 1 each, unless one of them denies the request, too. They bound how often a
// client makes the gate read a body for nothing. The charge ignores the end of the request's context. An error is
// logged.
func (rec *record) chargeForBody(e *Event, known []core.Ask, ofBody []askOfBody, all *core.Limiter) {
	g, d := rec.gate, e.Decision
	isOfBody := func(i int) bool {
		return slices.ContainsFunc(ofBody, func(a askOfBody) bool { return a.at == i })
	}
	var others []core.Ask
	for i := range known {
		if !isOfBody(i) {
			others = append(others, known[i])
		}
	}
	if len(others) == 0 || !deniesOnly(&d, isOfBody) {
		return
	}
	own := newRecord(rec.original, g)
	ctx := own.detached()
	if err := own.chargeEach(ctx, e, others, inner.Attempt); err != nil {
		g.log.warn(ctx, "weir: the store could not charge a request for its body", err, http.StatusTooManyRequests)
	} else {
		endPlaces(own)
		g.exhausted.addFrom(g.asks, all, others, &e.Decision, true)
	}
	e.Decision = d
}

// add completes the last n known asks, which are those of the last key function: of all routes, too, if it is the
// first one. It reports whether the key is exhausted, and something follows that a denial would save.
func (w *steps) add(n int) (exhausted bool) {
	g, added := w.rec.gate, slices.Clone(w.known[len(w.known)-n:])
	w.known = distinct(w.known)
	for i := range added {
		if c := g.asks[w.i].body; c != nil {
			at := slices.IndexFunc(w.known, func(o core.Ask) bool { return sameKey(&o, &added[i]) })
			w.ofBody = append(w.ofBody, askOfBody{at: at, cost: c})
		}
		exhausted = exhausted || (w.i < len(g.asks)-1 || g.readsBody) && g.exhausted.has(added[i].Limiter, added[i].Key)
	}
	return exhausted
}

// ask charges the known keys, or only asks about them, unless the Store has failed. done reports that they are
// denied, or that the request has ended, with a Rejection.
func (w *steps) ask(peek bool) (rejection *Rejection, done bool) {
	switch {
	case w.failed != nil || len(w.known) == w.charged || w.charge(peek):
		return nil, false
	case w.failed == nil:
		return nil, true
	case w.r.Context().Err() != nil:
		return w.rec.gate.reject(&w.e, w.h, w.r, w.failed, ended), true
	}
	return nil, false
}

// charge charges the known keys that are not charged yet, or with peek only asks about them. It reports false if
// they are denied, or if the Store fails: the other charges are refunded then.
func (w *steps) charge(peek bool) (admitted bool) {
	known := w.known[w.charged:]
	peek = peek || hasDelay(known)
	w.failed = w.rec.chargeEach(w.r.Context(), &w.e, known, func(a *core.Ask) {
		a.Peek = peek
		inner.AttemptUnlessDenied(a)
	})
	switch d := &w.e.Decision; {
	case w.failed != nil:
	case !d.Allowed:
		w.rec.gate.exhausted.addFrom(w.rec.gate.asks, w.all, known, d, false)
	case peek:
		w.rec.reservation = core.Reservation{}
		return true
	default:
		w.charges = append(w.charges, stepCharge{w.rec, w.charged, len(w.known)})
		w.charged, w.rec = len(w.known), newRecord(w.r, w.rec.gate)
		return true
	}
	w.refund()
	if w.charges = nil; w.failed != nil {
		w.e.Decision = core.Decision{}
	}
	return false
}

// chargeEach decides about known and sets e.Decision, with a cost of at least 1 each: a cost of zero must not make a
// request free if it has no other key. If mark is not nil, it changes the copies of known that are charged.
func (rec *record) chargeEach(ctx context.Context, e *Event, known []core.Ask, mark func(*core.Ask)) error {
	charged := slices.Clone(known)
	for i := range charged {
		if charged[i].Peek = false; mark != nil {
			mark(&charged[i])
		}
	}
	return rec.reserve(ctx, e, charged)
}

// deniesOnly reports whether d is a denial because of the asks alone for whose index is returns true.
func deniesOnly(d *core.Decision, is func(ask int) bool) bool {
	for _, s := range d.States() {
		if !is(s.Ask) && !s.Allowed && !s.Rule.IsShadow() {
			return false
		}
	}
	return !d.Allowed
}

// hasDelay reports whether one of known has a leaky bucket. An early charge of such a rule could not be
// refunded while later requests are in the queue. Concurrent requests that come when one place is free
// therefore all see it.
func hasDelay(known []core.Ask) bool {
	return slices.ContainsFunc(known, func(a core.Ask) bool {
		return slices.ContainsFunc(a.Limiter.Rules(), func(r core.Rule) bool { return r.Kind().Delays })
	})
}

// refund refunds the charges. An error is logged.
func (w *steps) refund() {
	for _, c := range w.charges {
		ctx := c.rec.detached()
		if err := c.rec.reservation.Refund(ctx); err != nil {
			c.rec.gate.log.warn(ctx, "weir: the cost of a request could not be refunded", err, sent)
		}
	}
}

// withoutKey charges and rejects a request for whose last known ask a key function has returned err, or a Cost
// function a negative cost, or whose body has no cost.
func (w *steps) withoutKey(err error) (*record, *Rejection) {
	g, d := w.rec.gate, &w.e.Decision
	if errors.Is(err, core.ErrNegativeCost) && !isCostError(err) { // that of a Cost function, which is no work
		w.refund()
		*d = core.Decision{}
		return w.rec, g.reject(&w.e, w.h, w.r, err, keyFailure(w.r, err))
	}
	if w.failed == nil {
		w.failed = w.chargeWithoutKey(err)
	}
	last := w.rec
	endPlaces(last)
	for _, c := range w.charges {
		endPlaces(c.rec)
		decided := c.rec.reservation.Decision()
		g.exhausted.addFrom(g.asks, w.all, w.known[c.from:c.to], &decided, true)
		if d.Len() == 0 {
			last, *d = c.rec, decided
		}
	}
	if d.Len() > 0 && !d.Allowed {
		return last, nil
	}
	fields := *d
	*d = core.Decision{}
	f := keyFailure(w.r, err)
	if w.failed != nil && g.onError == nil { // it does not change the response
		g.log.warn(w.r.Context(), "weir: the store could not charge a request without a key", w.failed, f.status)
	}
	rejection := g.reject(&w.e, w.h, w.r, err, f)
	if rejection != nil {
		last.writeFields(w.h, &fields) // of the other keys
	}
	return last, rejection
}

// chargeWithoutKey charges a request that has no key for the last known ask, or no cost in its body; missing is
// the error. It charges the other known keys and the partial key that the error may contain (see
// [keyfunc.Join]), also to the limiter of all routes if it is the first key. If only the partial key denies the
// request, the known keys are charged nevertheless,
// because the key function has run. The charge ignores the end of the request's context; otherwise a
// client could avoid it by hanging up.
func (w *steps) chargeWithoutKey(missing error) error {
	ctx, known := w.rec.detached(), w.known[w.charged:]
	all := known
	if !isCostError(missing) {
		n := len(known) - 1
		next := known[n]
		known = known[:n:n]
		all = known
		var partial interface {
			error
			PartialKey() string
		}
		if errors.As(missing, &partial) {
			next.Key, next.Plan = partial.PartialKey(), ""
			all = append(known, next)
			if w.i == 0 && n == 0 && w.all != nil && w.all != next.Limiter {
				next.Limiter = w.all
				all = append(all, next)
			}
		}
	}
	if w.e.Decision = (core.Decision{}); len(all) == 0 {
		return nil
	}
	if err := w.rec.chargeEach(ctx, &w.e, all, nil); err != nil {
		return err
	}
	d := w.e.Decision
	if len(known) > 0 && len(all) > len(known) && deniesOnly(&d, func(ask int) bool { return ask >= len(known) }) {
		again := newRecord(w.rec.original, w.rec.gate)
		err := again.chargeEach(ctx, &w.e, known, inner.Attempt)
		d, w.e.Decision = w.e.Decision, d
		if err != nil {
			return err
		}
		endPlaces(again)
	}
	if len(known) > 0 {
		w.rec.gate.exhausted.addFrom(w.rec.gate.asks, w.all, known, &d, true)
	}
	return nil
}
