package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate/internal/unexported"
	"github.com/weir-go/weir/keyfunc"
)

// Admit decides about r and writes the header fields to h: see Admit of package adapter. Served is nil if
// nothing remains to be done for a request that is let through.
func (g *gate) Admit(ctx context.Context, h http.Header, r *http.Request, pattern string) (*http.Request, *unexported.Served, *Rejection) {
	var e Event
	next, served, rejection := g.admit(ctx, h, r, pattern, &e)
	if g.onDecision != nil {
		reported := false
		if served != nil && served.End != nil {
			defer func() {
				if !reported { // OnDecision panics
					served.End()
				}
			}()
		}
		e.report(ctx, g.onDecision, recordOf(next.Context()), cmp.Or(pattern, r.Pattern), rejection)
		reported = true
	}
	return next, served, rejection
}

// admit finds the keys of r and decides about them. It returns the Rejection of r, or lets r through.
func (g *gate) admit(ctx context.Context, h http.Header, r *http.Request, pattern string, e *Event) (*http.Request, *unexported.Served, *Rejection) {
	if g.skip != nil && g.skip(ctx, r) || g.exempt != nil && g.exempt(ctx, r) {
		e.Outcome = Skipped
		return g.undecided(r), nil, nil
	}
	rec, first, all := newRecord(r, g), g.asks[0].limiter, (*core.Limiter)(nil)
	if g.exposeHeaders {
		rec.expose(h)
	}
	if g.routes != nil {
		if hidesDots(r.URL) {
			rejection := g.reject(e, h, r, ErrPath, failure{outcome: Rejected, status: http.StatusBadRequest})
			if rejection == nil {
				r = g.undecided(r)
			}
			return r, nil, rejection
		}
		var l *core.Limiter
		l, all = g.route(rec, r, pattern)
		first = cmp.Or(l, first)
	}
	rec, rejection := rec.decide(ctx, h, r, first, all, e)
	switch d := &e.Decision; {
	case rejection != nil:
		return r, nil, rejection
	case d.Len() == 0:
		return g.undecided(r), nil, nil
	}
	r = rec.bind(r)
	if rejection := rec.apply(h, r, e); rejection != nil {
		return r, nil, rejection
	}
	return r, rec.served(), nil
}

// apply writes the header fields of the decision of e about r, and holds r if it is delayed. It returns
// the Rejection of a request whose handler must not run, which has no places then.
func (rec *record) apply(h http.Header, r *http.Request, e *Event) *Rejection {
	rec.writeFields(h, &e.Decision)
	if !e.Decision.Allowed {
		return rec.gate.deny(h, r, e.Decision)
	}
	if e.Decision.Delay > 0 {
		if err := sleep(r.Context(), e.Decision.Delay); err != nil {
			refundDelayed(rec)
			endPlaces(rec)
			return rec.gate.reject(e, h, r, err, ended)
		}
	}
	return nil
}

// undecided returns r or, if there are outer gates, a copy whose context says that this gate made
// no decision. Otherwise [Settle] in the handler would charge an outer gate. With a choice of header fields,
// inner gates follow it in any case.
func (g *gate) undecided(r *http.Request) *http.Request {
	if g.headers != nil || g.xRateLimitRule != "" {
		return newRecord(r, g).bind(r)
	}
	outer := recordOf(r.Context())
	if outer == nil {
		return r
	}
	return newRecord(r, outer.gate).bind(r) // which sends the header fields of the outer gate
}

// served returns the part of the gate that follows the handler of an admitted request.
func (rec *record) served() *unexported.Served {
	end := places(rec)
	switch {
	case rec.gate.refundIf != nil:
		return &unexported.Served{RefundIf: func(status int) { refundIf(rec, status) }, End: end}
	case end != nil:
		return &unexported.Served{End: end}
	}
	return nil
}

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

// MaxDelay makes the gate deny a request at once if a leaky bucket would hold it for longer than d, by
// default 10 s. The request is charged nothing, and its Retry-After is the time until the delay would be
// at most d. The Store applies the bound, which therefore also holds for concurrent requests. Choose d below
// the timeouts of clients and load balancers: a client that hangs up keeps its departure unless it is the
// last one in the queue, and later requests wait for it. Rules of other algorithms have no delay. If d is
// less than a microsecond, only requests without a delay are admitted.
//
// MaxDelay panics if d is not positive.
func MaxDelay(d time.Duration) Option {
	if d <= 0 {
		panic("gate: MaxDelay: duration is not positive")
	}
	return option(func(o *options) { o.maxDelay = d })
}

// defaultMaxDelay is the bound without [MaxDelay]. Many load balancers give up after 30 to 60 s, and people sooner.
const defaultMaxDelay = 10 * time.Second

// sleep waits for delay, which is above zero, and returns an error if ctx ends before that.
func sleep(ctx context.Context, delay time.Duration) error {
	departure, cancel := context.WithTimeout(ctx, delay)
	defer cancel()
	<-departure.Done()
	return ctx.Err()
}

// refundDelayed refunds the leaky buckets of a request whose client hung up while it was held. Other
// rules stay charged; otherwise sending a request and hanging up would be free.
func refundDelayed(rec *record) {
	ctx := rec.detached()
	if err := inner.RefundDelayed(&rec.reservation, ctx); err != nil {
		rec.gate.log.warn(ctx, "weir: the leaky bucket of a client that hung up could not be refunded", err, ended.status)
	}
}
