// Package gatetest tests that an adapter keeps the HTTP contract of all adapters. It tests only the
// cases in which adapters can differ. Package gate does the rest for every adapter, and has its own tests.
//
//	func TestContract(t *testing.T) {
//		gatetest.Run(t, func(l *core.Limiter, key keyfunc.Func, opts []gate.Option, h http.HandlerFunc) http.Handler {
//			return nethttplimit.New(l, key, opts...)(h)
//		}, gatetest.OnDenied(nethttplimit.OnDenied), gatetest.OnRejected(nethttplimit.OnRejected), gatetest.Calls(calls))
//	}
//
// # Requirements
//
// Every adapter must meet these requirements. An adapter that is written like the example of package
// adapter meets them, unless its framework has other conventions.
//
//   - Name: the name that the adapter gives to package adapter ends in "limit", such as "fwlimit", or in
//     "limit" and a major version, such as "fwlimit/v2". New panics if an argument is nil, the limiters
//     have different Stores or an option belongs to another adapter, with a text that begins with
//     "fwlimit: New: ".
//   - Responses: the header fields that Admit sets are sent once, with admitted, denied and rejected
//     requests. The problem document has the type [gate.ProblemMediaType], or is text if Accept prefers
//     text (see [ErrorHandler] for frameworks that write it themselves), with X-Content-Type-Options:
//     nosniff. The response to HEAD has no body.
//   - Contexts: the handler gets the request that Admit returns, whose context has the decision, also
//     behind several gates. The Store gets the values, the deadline and the end of the context of the
//     request. Key functions, Skip and Cost get one context.
//   - Requests: code around the gate finds in its request the MultipartForm, Form, PostForm and Pattern that
//     code inside the gate has set, also after a panic, so that net/http removes the files of uploads.
//   - Hang-ups: the handler of a client that has hung up while the Store decided, or while a leaky bucket
//     held the request, does not run.
//   - RefundIf: it gets the status of the response once, for every way to write it: WriteHeader, Write,
//     WriteString, ReadFrom, Flush, a hijacked connection (101) and a panic (500). The refund is made
//     before the response is complete. A client that has hung up is not refunded.
//   - ResponseWriter: it has the same optional methods with RefundIf and without, and
//     [http.ResponseController] can use it. RefundIf adds one ResponseWriter; no other option adds any.
//   - In flight: a request has its places of [core.InFlight] rules until its handler has returned, panicked or
//     returned an error, also if the client hangs up, the response is a stream or the connection is
//     hijacked. The places in a memory store are free before a short response is complete.
//   - Panics: a panic of the handler, a key function, Skip, Cost, OnError or RefundIf passes through the
//     middleware. The next request is served.
//   - Allocations: an admitted request costs at most 4 allocations, 3 without header fields, 6 with
//     two keys and 5 with a limiter of gate.Routes; a denied request costs at most 9, and 11 with
//     gate.Jitter. These numbers include the allocations of the framework, with a request and a
//     ResponseWriter that are reused. They are not tested with the race detector or counters of coverage.
//   - OnDenied and OnRejected: OnDenied is called for denials, and OnRejected for all other rejections.
//     The header fields are set then. If the function of OnRejected writes nothing, the status of the
//     response is that of the Problem, and the response has no body.
//   - Check and Deny: the response to a denied or rejected event is complete, as from the middleware, and
//     neither OnDenied nor OnRejected is called. Their panics begin with "fwlimit: Check: " and
//     "fwlimit: Deny: ".
//
// The function given to Run makes a new application for each test. The tests of [OnDenied],
// [OnRejected], [Calls], [Nest], [Routes], [Errors] and [ClientAddress] run only if the option is given.
// An adapter should give OnDenied, OnRejected and Calls, and each other option whose concept its
// framework has.
package gatetest

import (
	"context"
	"net/http"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
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

// OnRejected returns an Option that adds the tests of the adapter's OnRejected. The function with must
// pass f, adapted to the framework, to OnRejected.
func OnRejected(with func(f func(w http.ResponseWriter, r *http.Request, rejection *gate.Rejection)) gate.Option) Option {
	return func(s *suite) { s.onRejected = with }
}

// A Call holds the functions of the adapter that a handler can call for its request.
type Call struct {
	// Check calls the adapter's Check. It returns nil if the handler may go on, and otherwise the
	// error of Check, or any other error if Check returns none.
	Check func(l *core.Limiter, key string, opts ...gate.Option) error
	// Deny calls the adapter's Deny. It returns the error of Deny, or any other error.
	Deny func(d core.Decision) error
	// Context returns the context that the framework has for gate.FromContext. It is called after
	// Check, and may then be the context of another request.
	Context func() context.Context
	// Request returns the request that the framework has now.
	Request func() *http.Request
	// Replace replaces the request of the framework. It is nil if handlers cannot do that, as in net/http.
	Replace func(r *http.Request)
}

// Calls returns an Option that adds the tests of the adapter's Check and Deny. build must make an
// application like a Build, with a handler that calls h, behind the middlewares of gates, the outermost
// first. There may be no gates. The handler must return the error of h, if the framework takes errors.
func Calls(build func(gates []Gate, h func(w http.ResponseWriter, c Call) error) http.Handler) Option {
	return func(s *suite) { s.buildCalls = build }
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
	buildCalls    func([]Gate, func(http.ResponseWriter, Call) error) http.Handler
	onDenied      func(func(http.ResponseWriter, *http.Request, core.Decision)) gate.Option
	onRejected    func(func(http.ResponseWriter, *http.Request, *gate.Rejection)) gate.Option
	errorHandler  string // the media type of its documents; empty if the adapter writes the responses
}

// Run runs every test as a subtest.
func Run(t *testing.T, build Build, opts ...Option) {
	s := &suite{build: build}
	for _, o := range opts {
		o(s)
	}
	t.Run("answers", s.testAnswers)
	t.Run("X-RateLimit", s.testXRateLimit)
	t.Run("jitter", s.testJitter)
	t.Run("contexts", s.testContexts)
	t.Run("hangs up", s.testHangUp)
	t.Run("several gates", s.testGates)
	t.Run("refund", s.testRefund)
	t.Run("streams", s.testStreams)
	t.Run("uploads", s.testUploads)
	t.Run("outer readers", s.testOuterReaders)
	t.Run("in flight", s.testInFlight)
	t.Run("cost of the body", s.testCostOfBody)
	t.Run("panics", s.testPanics)
	t.Run("construction", s.testConstruction)
	t.Run("concurrency", s.testConcurrency)
	t.Run("allocations", s.testAllocations)
	if s.onDenied != nil {
		t.Run("OnDenied", s.testOnDenied)
	}
	if s.onRejected != nil {
		t.Run("OnRejected", s.testOnRejected)
	}
	if s.buildCalls != nil {
		t.Run("Check", s.testCheck)
		t.Run("Deny", s.testDeny)
	}
	if s.buildRoutes != nil {
		t.Run("routes", s.testRoutes)
	}
	if s.buildFailing != nil {
		t.Run("errors", s.testErrors)
	}
	if s.clientAddress != nil {
		t.Run("client address", s.testClientAddress)
	}
}

// start makes the application of c.
func (s *suite) start(c setup) *application { return apptest.Start(s.build, c) }

// adapterName is a regular expression for the name of an adapter at the beginning of a text.
const adapterName = `^\w+limit(/v[0-9]+)?`

// Short names of package apptest.
type (
	setup       = apptest.Setup
	application = apptest.Application
	states      = apptest.States
	reply       = apptest.Reply
)

var (
	exchange, send, record  = apptest.Exchange, apptest.Send, apptest.Record
	request                 = apptest.Request
	allowed, denied, memory = apptest.Allowed, apptest.Denied, apptest.Memory
	constant, noKey         = apptest.Constant, apptest.NoKey
	says, answers           = apptest.Says, apptest.Answers
	atOnce, caught          = apptest.AtOnce, apptest.Caught
	quiet, skipped          = apptest.Quiet, apptest.Skipped
	refundAll, succeeded    = apptest.RefundAll, apptest.Succeeded
	errSecret               = apptest.ErrSecret
)
