// Package gatetest tests that an adapter keeps the HTTP contract of all adapters: a table of
// requests and responses, with real servers, and tests of time, memory and streaming.
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

// A Build returns an application of the adapter's framework, which serves every method and path
// with h, behind a middleware of the adapter.
type Build = func(l *core.Limiter, key keyfunc.Func, opts []gate.Option, h http.HandlerFunc) http.Handler

// An Option adds tests to Run, or allows an adapter to differ from the others.
type Option func(*suite)

// ErrorHandler returns an Option for frameworks whose error handler writes the problem documents,
// with this media type. The handler never sends text, and its response to HEAD has no media type.
// Without the option, an adapter must send [gate.ProblemMediaType], or text if text is first in
// Accept.
func ErrorHandler(mediaType string) Option { return func(s *suite) { s.errorHandler = mediaType } }

// OnDenied returns an Option that adds the tests of the adapter's OnDenied. The function with must
// pass f, adapted to the framework, to OnDenied.
func OnDenied(with func(f func(w http.ResponseWriter, r *http.Request, d core.Decision)) gate.Option) Option {
	return func(s *suite) { s.onDenied = with }
}

// Errors returns an Option that adds the tests of handlers that return errors. build must make an
// application like a Build, whose framework handles the error of h. If h has written no response,
// the function answer must write it; if answer is nil, none is written.
func Errors(build func(l *core.Limiter, key keyfunc.Func, opts []gate.Option,
	h func(w http.ResponseWriter, r *http.Request) error, answer http.HandlerFunc) http.Handler,
) Option {
	return func(s *suite) { s.buildFailing = build }
}

// A Gate holds the arguments of an adapter's New.
type Gate struct {
	Limiter *core.Limiter
	Key     keyfunc.Func
	Opts    []gate.Option
}

// Nest returns an Option that adds the tests of several gates in one application. build must make
// an application like a Build, with h behind the middlewares of gates, the outermost first.
func Nest(build func(gates []Gate, h http.HandlerFunc) http.Handler) Option {
	return func(s *suite) { s.nest = build }
}

// ClientAddress returns an Option that adds the tests of key, a key function for the client address
// that the framework finds. build must make an application like a Build that believes the
// X-Forwarded-For of peers in 192.0.2.0/24, or of no peer if trust is false.
func ClientAddress(key func(...keyfunc.IPOption) keyfunc.Func,
	build func(trust bool, key keyfunc.Func, h http.HandlerFunc) http.Handler,
) Option {
	return func(s *suite) { s.clientAddress, s.buildTrusting = key, build }
}

// A suite holds the functions of one adapter. The function of an option that is not given is nil.
type suite struct {
	build         Build
	nest          func([]Gate, http.HandlerFunc) http.Handler
	clientAddress func(...keyfunc.IPOption) keyfunc.Func
	buildTrusting func(bool, keyfunc.Func, http.HandlerFunc) http.Handler
	buildRoutes   func(Gate, Handlers) http.Handler
	buildFailing  func(*core.Limiter, keyfunc.Func, []gate.Option, failingHandler, http.HandlerFunc) http.Handler
	onDenied      func(func(http.ResponseWriter, *http.Request, core.Decision)) gate.Option
	errorHandler  string // the media type of its documents; empty if the adapter writes the responses
}

// Run runs every test as a subtest. Run replaces the default logger, so it must not run in parallel
// with other tests.
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
	t.Run("plans", s.testPlans)
	t.Run("several costs", s.testSeveralCosts)
	t.Run("route table", s.testTable)
	if s.buildRoutes != nil {
		t.Run("routes", s.testRoutes)
	}
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
