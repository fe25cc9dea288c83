package gate

import (
	"cmp"
	"context"
	"net/http"

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
