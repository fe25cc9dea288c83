package adapter

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-go/weir/core/gate"
)

// Admit decides about r and writes the header fields to h. ctx is the context of the framework,
// which is passed to the key functions; the Store gets r.Context(). pattern is the pattern of the
// route that the framework has matched, for [gate.Routes]; if it is empty, r.Pattern counts.
//
// A request that a leaky bucket delays is held until its departure, or until its client hangs up.
// If the client hangs up, the bucket is refunded only if no later request is in the queue, because
// the departures of later requests are fixed already.
//
// If Admit returns no Rejection, the adapter must run the handler, with [Outcome.Run] unless the
// Outcome is nil. If Admit returns a Rejection, the handler must not run; all header fields of the
// response are set except Content-Type and X-Content-Type-Options, and nothing is written. In both
// cases the adapter must replace r by the returned request, which is r or a copy with the decision
// in its context.
func (g *Gate) Admit(ctx context.Context, h http.Header, r *http.Request, pattern string) (*http.Request, *Outcome, *gate.Rejection) {
	o := &g.options
	if o.Skip != nil && o.Skip(ctx, r) || o.Exempt != nil && o.Exempt(ctx, r) {
		return g.undecided(r), nil, nil
	}
	rc := newRequestContext(r.Context(), g)
	switch {
	case !o.Expose:
	case rc.versions == g.versions:
		expose(h, g.exposed)
	default: // outer gates send more versions
		expose(h, exposedFields(rc.versions))
	}
	if o.Routes != nil && hidesDots(r.URL) {
		rejection := g.reject(h, r, gate.ErrPath, failure{status: http.StatusBadRequest})
		if rejection == nil {
			return g.undecided(r), g.outcome(nil), nil
		}
		return r, nil, rejection
	}
	c := charges{requestContext: rc, first: g.limiterFor(rc, r, pattern), cost: 1}
	rejection, decided := c.decide(ctx, h, r)
	switch {
	case rejection != nil:
		return r, nil, rejection
	case !decided:
		return g.undecided(r), g.outcome(nil), nil
	}
	r = rc.bind(r)
	rc.writeFields(h, &c.decision)
	if !c.decision.Allowed {
		return r, nil, g.deny(h, r, c.decision)
	}
	if err := hold(rc, c.decision.Delay); err != nil {
		rc.leaveQueue()
		return r, nil, g.reject(h, r, err, ended)
	}
	return r, g.outcome(rc), nil
}

// undecided returns r or, if there are outer gates, a copy whose context says that this gate made
// no decision. Otherwise [gate.Settle] in the handler would charge an outer gate.
func (g *Gate) undecided(r *http.Request) *http.Request {
	outer := requestContextOf(r.Context())
	if outer == nil {
		return r
	}
	rc := &requestContext{Context: r.Context(), gate: g, versions: outer.versions, nested: true}
	return rc.bind(r)
}

// outcome returns the Outcome of a request that is let through, or nil if neither RefundIf nor
// CountInFlight needs one. rc is nil if the Store could not decide; nothing can be refunded then.
func (g *Gate) outcome(rc *requestContext) *Outcome {
	if g.options.RefundIf == nil {
		rc = nil
	}
	if rc == nil && g.options.InFlight == nil {
		return nil
	}
	return &Outcome{gate: g, rc: rc}
}

// hold waits for delay, and returns an error if ctx ends before that.
func hold(ctx context.Context, delay time.Duration) error {
	if delay <= 0 {
		return nil
	}
	departure, cancel := context.WithTimeout(ctx, delay)
	defer cancel()
	<-departure.Done()
	return ctx.Err()
}
