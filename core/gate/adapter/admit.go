package adapter

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-go/weir/core/gate"
)

// Admit decides about r and writes the header fields to h. ctx is the context of
// the framework, for the key functions; the Store gets r.Context().
//
// A request with a Delay (of a leaky bucket) is held until its departure, or until its
// client hangs up. Its place in the queue is then given back while it is the last; otherwise
// the place stays unused, because the requests behind have been given their departures.
//
// Without a Rejection the handler is to run, by [Outcome.Run] unless the Outcome is nil. With
// a Rejection it is not: all header fields of the answer are set except Content-Type and
// X-Content-Type-Options, and nothing is written. The request that Admit returns replaces r in
// both cases. It is r, or a copy whose context has the decision.
func (g *Gate) Admit(ctx context.Context, h http.Header, r *http.Request) (*http.Request, *Outcome, *gate.Rejection) {
	if g.options.Skip != nil && g.options.Skip(r) {
		return g.undecided(r), nil, nil
	}
	if g.options.Expose {
		expose(h, g.exposed)
	}
	rc := newRequestContext(r.Context(), g)
	c := charges{requestContext: rc, cost: 1}
	rejection, decided, done := c.findKeys(ctx, h, r)
	if !done {
		rejection, decided = c.charge(h, r)
	}
	switch {
	case rejection != nil:
		return r, nil, rejection
	case !decided:
		return g.undecided(r), g.outcome(nil), nil
	}
	r = r.WithContext(rc)
	rc.writeFields(h)
	if !rc.decision.Allowed {
		return r, nil, deny(h, r, rc.decision)
	}
	if err := hold(rc, rc.decision.Delay); err != nil {
		rc.leaveQueue()
		return r, nil, g.reject(h, r, err, ended)
	}
	return r, g.outcome(rc), nil
}

// undecided is r, or a copy that keeps what is between it and the gates around this
// one. Without that, [gate.Settle] in the handler would charge one of those.
func (g *Gate) undecided(r *http.Request) *http.Request {
	outer := requestContextOf(r.Context())
	if outer == nil {
		return r
	}
	return r.WithContext(&requestContext{Context: r.Context(), outer: outer, gate: g, versions: outer.versions})
}

// outcome is nil if the gate does nothing after a request that was let through. rc
// is nil if the Store could not decide about it: then nothing can be refunded.
func (g *Gate) outcome(rc *requestContext) *Outcome {
	if g.options.RefundIf == nil {
		rc = nil
	}
	if rc == nil && g.options.InFlight == nil {
		return nil
	}
	return &Outcome{gate: g, request: rc}
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
