package gate

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate/internal/unexported"
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

// Lost returns a channel that is closed when the request has lost a place of a [core.InFlight] rule,
// although its handler still runs: see [core.Reservation.Lost]. The gate does not cancel the request. ctx
// is as for [FromContext]. If gates around each other have such rules, the channel is that of the
// innermost one. It is nil if no gate has taken a place for the request, and blocks then for ever.
func Lost(ctx context.Context) <-chan struct{} {
	for rec := recordFrom(ctx); rec != nil; rec = rec.outer {
		if lost := rec.reservation.Lost(); lost != nil {
			return lost
		}
	}
	return nil
}

// places returns a function that frees the places of in-flight rules that the request has taken, or nil if
// there are none. Until then, they are renewed, even if the client hangs up, because the handler may still
// run. The function does not wait for another process.
func places(rec *record) (end func()) {
	has, local := inner.HasPlaces(&rec.reservation)
	switch {
	case !has:
		return nil
	case local:
		return func() { release(rec) }
	}
	return func() { go release(rec) }
}

// endPlaces frees the places of a request whose handler does not run.
func endPlaces(rec *record) {
	if end := places(rec); end != nil {
		end()
	}
}

// release frees the places of rec. An error is logged; the places then lapse at the end of their hold.
func release(rec *record) {
	ctx := rec.detached()
	if err := rec.reservation.Release(ctx); err != nil {
		rec.gate.log.warn(ctx, "weir: the place of a request could not be freed, and lapses", err, sent)
	}
}
