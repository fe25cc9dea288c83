package gate

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate/internal/requestkey"
	"github.com/weir-go/weir/internal/argument"
)

// OnDecision makes the gate call f once for each request, after its decision and, if it is delayed,
// after the delay, before the handler runs or the response is written. Use it for access logs and
// metrics of routes; package observe counts decisions by rule without it. ctx is derived from the
// context that key functions get, has the values of the context of the request, too, and ends with the request. After a
// decision, [Key] returns its key, and [FromContext] the decision.
//
// f is called concurrently, and the request waits for it. A panic of f propagates, as that of a key
// function does; after a panic of another function, f is not called. In Check, f is called for the
// decision of the handler. OnDecision panics if f is nil.
func OnDecision(f func(ctx context.Context, e Event)) Option {
	argument.NotNil("gate: OnDecision", "function", f)
	return option(func(o *options) { o.onDecision = f })
}

// An Event is the outcome of a request at a gate. It contains no key.
type Event struct {
	Outcome  Outcome
	Decision core.Decision // zero unless the Outcome is Admitted, Soft, Delayed or Denied
	Pattern  string        // of the route that the router has matched, in its own syntax; may be empty
	// Status is the status of the gate's response, or 0 if the request is let through. OnDenied and
	// OnRejected of an adapter may send another one.
	Status int
	// Err is the reason why no decision could be made: see [OnError]. It is nil if there was one.
	Err error
	// StoreTime is the time that the decisions about the request took, nearly all of it in the Store.
	StoreTime time.Duration
}

// An Outcome says whether a gate has let a request through, and why.
type Outcome uint8

const (
	NotLimited Outcome = iota // let through: the key functions said keyfunc.ErrNotLimited
	Skipped                   // let through by Skip or Exempt
	Admitted                  // let through within the limits
	Soft                      // let through beyond a limit: see core.Rule.Soft
	Delayed                   // let through after the Delay of a core.LeakyBucket
	Denied                    // over a limit
	Rejected                  // without a key, or with another fault of the request or the application
	Refused                   // the Store could not decide, or the request ended before the decision
	LetThrough                // let through undecided: the Store failed, or OnError chose it
)

// String returns "not_limited", "skipped", "admitted", "soft", "delayed", "denied", "rejected",
// "refused" or "let_through".
func (o Outcome) String() string {
	if o <= LetThrough {
		return [...]string{"not_limited", "skipped", "admitted", "soft", "delayed", "denied", "rejected", "refused", "let_through"}[o]
	}
	return fmt.Sprintf("gate.Outcome(%d)", int(o))
}

// report completes e, the outcome of rec, and calls f, the function of OnDecision. If f panics, report calls end,
// unless it is nil.
func (e *Event) report(ctx context.Context, f func(context.Context, Event), rec *record, pattern string, rejection *Rejection, end func()) {
	e.Pattern = pattern
	if e.conclude(rejection); e.Decision.Len() == 0 {
		rec = recordOf(ctx) // of an outer gate
	}
	reported := false
	if end != nil {
		defer func() {
			if !reported {
				end()
			}
		}()
	}
	f(&eventContext{ctx, rec}, *e) // also without a decision, so that its type is always the same
	reported = true
}

// An eventContext is the context of the function of OnDecision, with the values of that of the request, too.
type eventContext struct {
	context.Context
	rec *record
}

// Value implements [context.Context].
func (c *eventContext) Value(key any) any {
	if key == (recordKey{}) {
		return c.rec
	}
	v := c.Context.Value(key)
	if v == nil {
		if r := requestkey.From(c.Context); r != nil { // a context of Gin does not look there
			v = r.Context().Value(key)
		}
	}
	return v
}

// conclude sets the Status of e, a request that is let through unless there is a rejection, and the
// Outcome of a request that was decided.
func (e *Event) conclude(rejection *Rejection) {
	if rejection != nil {
		e.Status = rejection.Problem.Status
	}
	switch d := &e.Decision; {
	case e.Outcome == Skipped:
	case e.Err != nil:
		e.Decision = core.Decision{}
	case d.Len() == 0:
	case !d.Allowed:
		e.Outcome = Denied
	case d.Delay > 0:
		e.Outcome = Delayed
	case d.Soft():
		e.Outcome = Soft
	default:
		e.Outcome = Admitted
	}
}
