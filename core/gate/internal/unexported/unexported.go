// Package unexported gives package adapter access to the functions of package gate that applications
// do not need.
package unexported

import (
	"context"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfunc"
)

// Functions contains the functions. Its type parameters are types of package gate, which cannot be
// named here, because package gate imports this package.
type Functions[Option, Rejection, Problem any] struct {
	// New returns a gate of the adapter called name.
	New func(name string, l *core.Limiter, key keyfunc.Func, opts []Option) Gate[Rejection]
	// Answer returns an option with the function that answers denied requests, or all other requests
	// that are not let through. Only gates of the adapter called name accept it.
	Answer func(name string, denied bool, f any) Option
	// PerIP returns the limiter of the function PerIP of the adapter called name.
	PerIP func(name string, limit core.Limit, opts []Option) *core.Limiter
	// Check decides about a key that a handler of r has found, for the function called name. It returns
	// nil if the request may go on. The context of r then has the decision.
	Check func(name string, ctx context.Context, h http.Header, r *http.Request, l *core.Limiter, key string, opts []Option) Rejection
	// Deny returns the Rejection for a denial, and sets its header fields.
	Deny func(name string, h http.Header, r *http.Request, d core.Decision) Rejection
	// WriteProblem responds to r with a problem document.
	WriteProblem func(w http.ResponseWriter, r *http.Request, p Problem)
	// RegisterRequestKey makes the functions of package gate look for an *http.Request under key.
	RegisterRequestKey func(key any)
}

// A Gate is a gate of package gate.
type Gate[Rejection any] interface {
	// Admit decides about r. Served is nil if nothing remains to be done for a request that is let
	// through.
	Admit(ctx context.Context, h http.Header, r *http.Request, pattern string) (*http.Request, *Served, Rejection)
	// Answer returns the function of an Answer option, or nil.
	Answer(denied bool) any
}

// Served is the part of a gate that follows the handler.
type Served struct {
	// RefundIf refunds the request if that is right for the status of the response. It is nil if the
	// status does not matter.
	RefundIf func(status int)
	// HungUp reports whether the client has hung up, or the deadline of the request has passed.
	HungUp func() bool
	// End frees the places of the request. It is nil if there are none.
	End func()
}

var functions any

// Provide sets the result of [Get].
func Provide[Option, Rejection, Problem any](f Functions[Option, Rejection, Problem]) { functions = f }

// Get returns the functions for gate.Option, *gate.Rejection and *gate.Problem.
func Get[Option, Rejection, Problem any]() Functions[Option, Rejection, Problem] {
	return functions.(Functions[Option, Rejection, Problem])
}
