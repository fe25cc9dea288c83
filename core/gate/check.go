package gate

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/argument"
)

// maxChecks bounds the number of checks of one request that FromContext and SettleFor find.
const maxChecks = 8

// Gates of check and deny exist for one decision, and share these.
var (
	checkPolicies = newPolicies()
	checkLog      = newFailureLog()
)

// errCheckPlaces is the error of a check that has taken a place, because the gate of a check does not know
// when the handler returns.
var errCheckPlaces = fmt.Errorf("%w: a rule is InFlight, and Check cannot free its place: call Reserve and Release of the limiter, and Deny", core.ErrInvalidAsk)

// Check decides about a key that a handler of r has found, for the function of an adapter called name.
// It writes the header fields to h, and returns a Rejection unless the handler may go on. If no gate has
// decided about r before, r gets a context that has the decision, with which the handler settles the event.
func (functions) Check(name string, ctx context.Context, h http.Header, r *http.Request, l *core.Limiter, key string, opts []Option) *Rejection {
	function := name + ": Check"
	argument.NotNil(function, "limiter", l)
	g := &gate{options: options{adapter: name}, policies: checkPolicies, now: inner.Clock(l), log: checkLog, check: true}
	if len(opts) > 0 {
		argument.Apply(function, &g.options, opts)
		rest := g.options
		rest.adapter, rest.failClosed, rest.jitter, rest.onError, rest.headers, rest.xRateLimitRule, rest.cost, rest.onDecision = "", false, 0, nil, nil, "", nil, nil
		if !reflect.ValueOf(rest).IsZero() {
			panic(function + ": only Cost, FailClosed, Headers, Jitter, OnDecision, OnError and XRateLimitRule can be given")
		}
	}
	g.versions = ownVersions(g.headers)
	g.asks = []ask{{limiter: l, key: func(context.Context, *http.Request) (string, error) { return key, nil }}}
	var e Event
	rec, rejection := newRecord(r, g).decide(ctx, h, r, l, nil, &e)
	if end := places(rec); end != nil {
		end()
		rec, e.Decision = newRecord(r, g), core.Decision{}
		rejection = g.reject(&e, h, r, errCheckPlaces, storeFailure(r, errCheckPlaces, false))
	}
	attach(rec, r)
	if e.Decision.Len() > 0 {
		rejection = rec.apply(h, r, &e)
	}
	if g.onDecision != nil {
		e.report(ctx, g.onDecision, rec, r.Pattern, rejection, nil)
	}
	if rejection != nil {
		removeBody(h)
	}
	return rejection
}

// removeBody removes the fields that a handler may have set about the body of its own response. It leaves
// Content-Encoding, because a middleware around the handler may have announced that it compresses all bodies.
func removeBody(h http.Header) {
	for _, name := range []string{"Content-Length", "Etag", "Last-Modified"} {
		delete(h, name)
	}
}

// attach makes rec the last check of the handler of r, also if it is undecided: otherwise [Settle] would be
// about the check before. It replaces a check of the same limiter just before, unless only that one is decided,
// so that a handler may make any number of them.
//
// Without a record in its context, r itself gets one. A copy of r would hide later changes by the
// handler from the server, such as the files of a form.
func attach(rec *record, r *http.Request) {
	place := recordOf(r.Context())
	if place == nil {
		rec.request = *r
		rec.original = &rec.request
		*r = *r.WithContext((*recordContext)(rec))
		return
	}
	for {
		latest := place.latest.Load()
		before := latest
		if before == nil && place.gate.check {
			before = place
		}
		switch {
		case before == nil:
			rec.outer = place
		case before.gate.asks[0].limiter == rec.gate.asks[0].limiter && (isDecided(rec) || !isDecided(before)):
			rec.outer = before.outer
		case checks(before) == maxChecks:
			rec.outer = place
		default:
			rec.outer = before
		}
		if place.latest.CompareAndSwap(latest, rec) {
			return
		}
	}
}

func isDecided(rec *record) bool { return rec.reservation.Decision().Len() > 0 }

// checks returns the number of checks from rec to that of a gate.
func checks(rec *record) int {
	n := 0
	for ; rec != nil && rec.gate.check; rec = rec.outer {
		n++
	}
	return n
}

// Deny returns the Rejection for d, a denial by the application, and writes the header fields to h. For
// the zero Decision, it is that of a store that could not decide.
func (functions) Deny(name string, h http.Header, r *http.Request, d core.Decision) *Rejection {
	if d.Allowed {
		panic(name + ": Deny: the decision is allowed")
	}
	g := &gate{policies: checkPolicies, now: time.Now, log: checkLog, check: true, versions: ownVersions(nil)}
	removeBody(h)
	if d.Len() == 0 {
		return g.reject(new(Event), h, r, core.ErrUnavailable, failure{status: http.StatusServiceUnavailable})
	}
	newRecord(r, g).writeFields(h, &d)
	return g.deny(h, r, d)
}
