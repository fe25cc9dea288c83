// Package gatetest holds every adapter to the same HTTP contract: one table of
// requests and answers, driven through real servers, and the same checks of
// time, memory and streaming.
//
//	func TestContract(t *testing.T) {
//		gatetest.Run(t, func(l *core.Limiter, key keyfunc.Func, opts []gate.Option, h http.HandlerFunc) http.Handler {
//			return nethttplimit.New(l, key, opts...)(h)
//		})
//	}
package gatetest

import (
	"net/http"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

// A Build makes an application of the adapter's framework that serves every
// method and path with h, behind a middleware of the adapter.
type Build = func(l *core.Limiter, key keyfunc.Func, opts []gate.Option, h http.HandlerFunc) http.Handler

// An Option says in what an adapter has to differ.
type Option func(*suite)

// ErrorHandler is for frameworks whose own error handler writes the problem documents, with
// this media type: it sends no text, and tells HEAD no media type. Without the option,
// an adapter sends [gate.ProblemMediaType], or text to a client that asks for it first.
func ErrorHandler(mediaType string) Option { return func(s *suite) { s.errorHandler = mediaType } }

// OnDenied adds the cases of the adapter's OnDenied: with is that function, for an f that
// needs nothing of the framework.
func OnDenied(with func(f func(w http.ResponseWriter, r *http.Request, d core.Decision)) gate.Option) Option {
	return func(s *suite) { s.onDenied = with }
}

// Errors adds the cases of handlers that return errors: build makes an application like a
// Build, in which the error of h takes the way that errors have in the framework. Unless h
// has answered, answer does; if answer is nil, nobody does.
func Errors(build func(l *core.Limiter, key keyfunc.Func, opts []gate.Option,
	h func(w http.ResponseWriter, r *http.Request) error, answer http.HandlerFunc) http.Handler,
) Option {
	return func(s *suite) { s.buildFailing = build }
}

// A Gate is the arguments of an adapter's New.
type Gate struct {
	Limiter *core.Limiter
	Key     keyfunc.Func
	Opts    []gate.Option
}

// Nest adds the cases of several gates in one application: build makes an application like a
// Build, with h behind the middlewares of gates, the outermost first.
func Nest(build func(gates []Gate, h http.HandlerFunc) http.Handler) Option {
	return func(s *suite) { s.nest = build }
}

// ClientAddress adds the cases of a key function that keys by the framework's own idea of the
// client's address: key is that function. build makes an application like a Build that believes
// the X-Forwarded-For of peers in 192.0.2.0/24, or of none if trust is false.
func ClientAddress(key func(...keyfunc.IPOption) keyfunc.Func,
	build func(trust bool, key keyfunc.Func, h http.HandlerFunc) http.Handler,
) Option {
	return func(s *suite) { s.clientAddress, s.buildTrusting = key, build }
}

// A suite is the functions of one adapter. Those of options that are not given are nil.
type suite struct {
	build         Build
	nest          func([]Gate, http.HandlerFunc) http.Handler
	clientAddress func(...keyfunc.IPOption) keyfunc.Func
	buildTrusting func(bool, keyfunc.Func, http.HandlerFunc) http.Handler
	buildFailing  func(*core.Limiter, keyfunc.Func, []gate.Option, failingHandler, http.HandlerFunc) http.Handler
	onDenied      func(func(http.ResponseWriter, *http.Request, core.Decision)) gate.Option
	errorHandler  string // the media type of its documents; empty if the adapter writes the answers
}

// Run runs every check as a subtest. It swaps the default logger, so the test
// that calls it must not be parallel to others.
func Run(t *testing.T, build Build, opts ...Option) {
	s := &suite{build: build}
	for _, o := range opts {
		o(s)
	}
	t.Run("answers", s.testAnswers)
	t.Run("options", s.testOptions)
	t.Run("faults", s.testFaults)
	t.Run("time", s.testTime)
	t.Run("several gates", s.testGates)
	t.Run("two identities", s.testIdentities)
	t.Run("rejected", s.testRejected)
	t.Run("ended requests", s.testEnded)
	t.Run("hostile requests", s.testHostile)
	t.Run("streams", s.testStreams)
	t.Run("modifiers", s.testModifiers)
	t.Run("queues", s.testQueues)
	t.Run("refund", s.testRefund)
	t.Run("settle", s.testSettle)
	if s.onDenied != nil {
		t.Run("OnDenied", s.testOnDenied)
	}
	if s.buildFailing != nil {
		t.Run("errors", s.testErrors)
	}
	if s.clientAddress != nil {
		t.Run("client address", s.testClientAddress)
	}
	t.Run("in flight", s.testInFlight)
	t.Run("panics", s.testPanics)
	t.Run("construction", s.testConstruction)
	t.Run("log", s.testLog)
	t.Run("concurrency", s.testConcurrency)
	t.Run("allocations", s.testAllocations)
}
