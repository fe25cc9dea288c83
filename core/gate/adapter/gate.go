package adapter

import (
	"context"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/requestkey"
	"github.com/weir-go/weir/core/gate/internal/unexported"
	"github.com/weir-go/weir/keyfunc"
)

// functions is implemented by the type functions of package gate, for this package alone.
type functions interface {
	New(name string, l *core.Limiter, key keyfunc.Func, opts []gate.Option) (g, denied, rejected any)
	Respond(name string, denied bool, f any) gate.Option
	Limiter(name, function string, s core.Store, rule core.Rule, opts []gate.Option) *core.Limiter
	Check(name string, ctx context.Context, h http.Header, r *http.Request, l *core.Limiter, key string, opts []gate.Option) *gate.Rejection
	Deny(name string, h http.Header, r *http.Request, d core.Decision) *gate.Rejection
}

var inner = unexported.Functions.(functions)

// A Gate decides about the requests of one middleware. It is safe for concurrent use. See [New].
type Gate struct{ gate admitter }

// An admitter is a *gate of package gate: see its method Admit.
type admitter interface {
	Admit(ctx context.Context, h http.Header, r *http.Request, pattern string) (*http.Request, unexported.Served, *gate.Rejection)
	ReadsBody() bool
}

// New returns a Gate for the adapter called name. The Gate charges l for the key that key returns. responder
// returns the function of type F that the application has given to respond to a request with this Rejection
// ([Denied], [Rejected]), or false.
//
// New panics if l, key or an option is nil, if an option belongs to another adapter, or if the limiters
// use different Stores.
func New[F any](name string, l *core.Limiter, key keyfunc.Func, opts ...gate.Option) (g *Gate, responder func(*gate.Rejection) (F, bool)) {
	admits, onDenied, onRejected := inner.New(name, l, key, opts)
	denied, isDenied := onDenied.(F)
	rejected, isRejected := onRejected.(F)
	return &Gate{admits.(admitter)}, func(r *gate.Rejection) (F, bool) {
		if r.Denied() {
			return denied, isDenied
		}
		return rejected, isRejected
	}
}

// ReadsBody reports whether an option of the Gate, such as [gate.CostOfBody], reads the bodies of requests. New of an adapter
// panics then if its framework has no such bodies.
func (g *Gate) ReadsBody() bool { return g.gate.ReadsBody() }

// Denied returns the option OnDenied of the adapter called name, whose function f responds to denied requests.
// F is the type that this adapter gives to [New]. New panics in any other adapter. Denied panics if f,
// which must be a function, is nil.
func Denied[F any](name string, f F) gate.Option { return inner.Respond(name, true, f) }

// Rejected returns the option OnRejected of the adapter called name, whose function f responds to the other
// requests that are not let through. It panics as [Denied] does.
func Rejected[F any](name string, f F) gate.Option { return inner.Respond(name, false, f) }

// Limiter returns the limiter of a function of the adapter called name that takes a Store and one rule, such as Limit
// and PerIP, and passes the limiter and opts to New. Limiter panics, in the name of function, if rule is invalid, or
// if an option is nil or an And with a limiter on another Store.
func Limiter(name, function string, s core.Store, rule core.Rule, opts ...gate.Option) *core.Limiter {
	return inner.Limiter(name, function, s, rule, opts)
}

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
// in its context, and call [CopyBack] at the end.
func (g *Gate) Admit(ctx context.Context, h http.Header, r *http.Request, pattern string) (*http.Request, *Outcome, *gate.Rejection) {
	next, served, rejection := g.gate.Admit(ctx, h, r, pattern)
	if served.RefundIf == nil && served.End == nil {
		return next, nil, rejection
	}
	return next, &Outcome{served: served, request: r}, rejection
}

// Check decides about a key that a handler of r has found, for the function Check of the adapter called
// name. h is the header of the response, and ctx the context of the framework. opts may be Cost,
// FailClosed, Headers, OnDecision, OnError and XRateLimitRule; Check panics if another option is given, or if l is
// nil.
// If l has a [core.InFlight] rule that admits the event, the Rejection has the status 500.
// If Check returns a Rejection, the adapter responds as a middleware does, but without OnDenied and OnRejected.
// Otherwise the handler goes on. If no gate has decided about r before, Check sets the context of r, so that
// [gate.FromContext] finds the decision, and [gate.SettleFor] corrects the cost.
func Check(name string, ctx context.Context, h http.Header, r *http.Request, l *core.Limiter, key string, opts ...gate.Option) *gate.Rejection {
	return inner.Check(name, ctx, h, r, l, key, opts)
}

// Deny returns the Rejection for a denial d by the application, and sets the header fields of the
// response, for the function Deny of the adapter called name. For the zero Decision the status is 503.
// Deny panics if d is allowed.
func Deny(name string, h http.Header, r *http.Request, d core.Decision) *gate.Rejection {
	return inner.Deny(name, h, r, d)
}

// RegisterRequestKey makes [gate.FromContext], [gate.DecisionsFrom] and [gate.Settle] look for the
// *http.Request under key as well. It is for adapters of frameworks whose own context does not look
// up values in the context of the request.
func RegisterRequestKey(key any) { requestkey.Register(key) }

// CopyBack sets the fields MultipartForm, Form, PostForm and Pattern of original to those of r, which code
// inside the gate has set. original is the request that was given to [Gate.Admit], and r the request that the
// framework has when the handler has returned or panicked. If both are the same, or r is nil, CopyBack does
// nothing. A form that original has already is kept.
//
// net/http removes the temporary files of the MultipartForm of the request that it has made, and code
// around a gate, such as a log, finds the route and the form there. An adapter defers CopyBack before it
// runs the handler or a function of OnDenied or OnRejected.
func CopyBack(original, r *http.Request) {
	if original == r || r == nil {
		return
	}
	if original.MultipartForm == nil && r.MultipartForm != nil {
		original.MultipartForm = r.MultipartForm
	}
	if original.Form == nil && r.Form != nil {
		original.Form = r.Form
	}
	if original.PostForm == nil && r.PostForm != nil {
		original.PostForm = r.PostForm
	}
	if r.Pattern != "" && r.Pattern != original.Pattern {
		original.Pattern = r.Pattern
	}
}
