package gate

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate/internal/unexported"
)

// Admit decides about r and writes the header fields to h: see Admit of package adapter. served is zero if nothing
// remains to be done when the handler has returned.
//
// It has the steps of each request: choose the limiters, decide, write the header fields, and hold or deny the request.
// A check takes the steps from decide on.
func (g *gate) Admit(ctx context.Context, h http.Header, r *http.Request, pattern string) (next *http.Request, served unexported.Served, rejection *Rejection) {
	var (
		e   Event
		rec *record
	)
	if g.skip != nil && g.skip(ctx, r) || g.exempt != nil && g.exempt(ctx, r) {
		e.Outcome = Skipped
	} else {
		rec = newRecord(r, g)
		if g.exposeHeaders {
			rec.expose(h)
		}
		first, all, err := g.asks[0].limiter, (*core.Limiter)(nil), error(nil)
		if g.routes != nil {
			first, all, err = g.route(rec, r, pattern, first)
		}
		if err != nil {
			rejection = g.reject(&e, h, r, err, failure{outcome: Rejected, status: http.StatusBadRequest})
		} else {
			rec, rejection = rec.decide(ctx, h, r, first, all, &e)
		}
	}
	decided := e.Decision.Len() > 0
	switch {
	case !decided && rejection != nil:
		rec = nil
	case !decided:
		rec = g.undecided(r)
	}
	if next = r; rec != nil {
		rec.request = *r.WithContext((*recordContext)(rec))
		next = &rec.request
	}
	if decided {
		if rejection = rec.apply(h, next, &e); rejection == nil {
			served = rec.served()
		}
	}
	if g.onDecision != nil {
		e.report(ctx, g.onDecision, rec, cmp.Or(pattern, r.Pattern), rejection, served.End)
	}
	return next, served, rejection
}

// decide calls the key functions of the gate, and charges the keys in one decision. A key that is exhausted or
// missing, and a cost of the body, take the way of [steps] to the keys and costs. first is the limiter of the first
// key function, and all that of all routes for the same key, or nil. decide sets e.Decision, or returns the Rejection
// of a request about which none could be made, or neither for a request that is let through undecided. A denied
// request has no Rejection yet: see apply.
//
// The returned record, which is rec or another one in its place, has the decision. It has places only if the
// request is admitted.
func (rec *record) decide(ctx context.Context, h http.Header, r *http.Request, first, all *core.Limiter, e *Event) (_ *record, rejection *Rejection) {
	g, cost := rec.gate, 1
	if g.cost != nil {
		cost = g.cost(ctx, r)
	}
	var (
		few    [2]core.Ask
		ofBody []askOfBody
		looked lookups
	)
	known := few[:0] // each limiter, key and plan once
	for i := range g.asks {
		at := len(known)
		known = append(known, core.Ask{})
		next := &known[at] // is filled in place: to copy it just after it was written takes 10 ns
		next.Limiter, next.Cost, next.MaxDelay = g.asks[i].limiter, cost, g.maxDelay
		if i == 0 {
			next.Limiter = first
		}
		err := g.asks[i].identify(ctx, r, next, &looked)
		if err != nil && isNotLimited(err) {
			known = known[:len(known)-1]
			continue
		}
		exhausted := i < len(g.asks)-1 && g.exhausted.has(next.Limiter, next.Key)
		if i == 0 && all != nil && all != first && err == nil {
			known, err = g.asks[0].appendAll(ctx, r, known, all)
			exhausted = exhausted || len(known) > 1 && len(g.asks) > 1 && g.exhausted.has(all, known[1].Key)
		}
		withoutPlan(&known[at])
		if err != nil || g.readsBody || exhausted {
			rec, known, ofBody, rejection = findInSteps(ctx, rec, h, r, e, cost, known, i, all, looked, err)
			break
		}
		if len(known) > 1 {
			known = distinct(known)
		}
	}
	if len(known) == 0 { // keyfunc.ErrNotLimited, or the steps have decided
		return rec, rejection
	}
	if err := rec.reserve(r.Context(), e, known); err != nil {
		return rec, rec.undecidable(h, r, e, err)
	}
	if !e.Decision.Allowed {
		g.exhausted.addFrom(g.asks, all, known, &e.Decision, false)
		if len(ofBody) > 0 {
			rec.chargeForBody(e, known, ofBody, all)
		}
	}
	return rec, nil
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

// undecidable returns the Rejection of a request about which the Store could not decide, or nil if the request
// is let through.
func (rec *record) undecidable(h http.Header, r *http.Request, e *Event, err error) *Rejection {
	e.Decision = core.Decision{}
	return rec.gate.reject(e, h, r, err, storeFailure(r, err, rec.gate.failClosed))
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

// undecided returns a record which says that this gate made no decision about r, if there are outer gates: otherwise
// [Settle] in the handler would charge an outer gate. With a choice of header fields, inner gates follow it in any
// case. Otherwise undecided returns nil.
func (g *gate) undecided(r *http.Request) *record {
	if g.headers != nil || g.xRateLimitRule != "" {
		return newRecord(r, g)
	}
	if outer := recordOf(r.Context()); outer != nil {
		return newRecord(r, outer.gate) // which sends the header fields of the outer gate
	}
	return nil
}

// served returns the part of the gate that follows the handler of an admitted request.
func (rec *record) served() (s unexported.Served) {
	if rec.gate.refundIf != nil {
		s.RefundIf = func(status int) { refundIf(rec, status) }
	}
	if !rec.placeless {
		s.End = places(rec)
	}
	return s
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
