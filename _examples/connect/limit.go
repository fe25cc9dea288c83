package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

// A limit is a connect.Interceptor of handlers. A core.InFlight of limiter bounds the calls that run at the same
// time. key returns the key of a call, or its error. plan, if not nil, returns the plan of the caller, or "", as
// a middleware before has stored it in ctx. An unknown plan has the limits without a plan.
type limit struct {
	limiter *core.Limiter
	key     func(ctx context.Context, p connect.Peer, h http.Header) (string, error)
	plan    func(ctx context.Context) string
}

var remoteIP = keyfunc.RemoteIP()

// peerIP returns the key of the address at the other end of the connection: that of keyfunc.RemoteIP, so a Connect
// and an HTTP server with one limiter count a client once. Behind a proxy, it is the key of the proxy.
func peerIP(ctx context.Context, p connect.Peer, _ http.Header) (string, error) {
	key, err := remoteIP(ctx, (&http.Request{RemoteAddr: p.Addr}).WithContext(ctx)) // ctx tells whether it is a Unix socket
	if err != nil {
		return "", connect.NewError(connect.CodeUnauthenticated, errors.New("the client has no address"))
	}
	return key, nil
}

// headerKey makes a key of the header field called name: that of keyfunc.Header. A client can write anything into
// its header: use a field that a middleware before has verified, or that a proxy sets, which all clients must come
// through. A name that ends in "-bin" has no key, because its values have several encodings.
func headerKey(name string) func(ctx context.Context, p connect.Peer, h http.Header) (string, error) {
	text, binary := keyfunc.Header(name), strings.HasSuffix(strings.ToLower(name), "-bin")
	return func(ctx context.Context, _ connect.Peer, h http.Header) (string, error) {
		key, err := text(ctx, &http.Request{Header: h})
		if err != nil || binary || len(key) > 256 {
			return "", connect.NewError(connect.CodeUnauthenticated, errors.New("one value of "+name+" is necessary"))
		}
		return key, nil
	}
}

// WrapUnary runs after the message has been read, which connect.WithReadMaxBytes bounds.
func (l limit) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (res connect.AnyResponse, err error) {
		err = l.run(ctx, req.Peer(), req.Header(), func() error { res, err = next(ctx, req); return err })
		return res, err
	}
}

// WrapStreamingHandler counts a stream when it begins. Its messages are not counted.
func (l limit) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return l.run(ctx, conn.Peer(), conn.RequestHeader(), func() error { return next(ctx, conn) })
	}
}

func (l limit) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// run decides about a call, and calls next if it is admitted. During an outage of the store, calls are admitted
// unless a rule fails closed. Any other error rejects the call.
func (l limit) run(ctx context.Context, p connect.Peer, h http.Header, next func() error) error {
	key, err := l.key(ctx, p, h)
	if err != nil {
		return err
	}
	ask := core.Ask{Limiter: l.limiter, Key: key}
	if l.plan != nil {
		ask.Plan = l.plan(ctx)
	}
	if ctx.Err() != nil {
		return ctx.Err() // connect finds the code
	}
	lasting := context.WithoutCancel(ctx) // a place is kept until the handler returns, also if the client has gone
	r, err := core.ReserveTogether(lasting, ask)
	switch {
	case errors.Is(err, core.ErrFailClosed):
		log.Print(err)
		return connect.NewError(connect.CodeUnavailable, errors.New("the limit cannot be checked"))
	case errors.Is(err, core.ErrUnavailable):
		log.Print("a call is not limited: ", err)
		return next()
	case err != nil:
		log.Print(err)
		return connect.NewError(connect.CodeInternal, errors.New("the limit cannot be checked"))
	case !r.Decision().Allowed:
		return denied(r.Decision())
	}
	end := func(free func(context.Context) error) {
		if err := free(lasting); err != nil { // a place that is not freed lapses after the Hold of its rule
			log.Print("a call was not released: ", err)
		}
	}
	select { // a leaky bucket delays calls; the delay is 0 otherwise
	case <-time.After(r.Decision().Delay):
		defer end(r.Release)
		return next()
	case <-ctx.Done():
		end(r.Refund)
		return ctx.Err()
	}
}

// denied returns the error of a denial, with the wait in RetryInfo, and in Retry-After for clients of HTTP. There is
// none if the cost can never be admitted, or if the wait is unknown because calls that run must end first. There is
// no pushback for the retry policies of gRPC clients: they do not retry a call after the header of a response, which
// connect sends before the status.
func denied(d core.Decision) error {
	e, quota := connect.NewError(connect.CodeResourceExhausted, errors.New("the limit is exceeded")), new(errdetails.QuotaFailure)
	for _, state := range d.States() {
		if !state.Allowed && !state.Rule.IsShadow() {
			name := cmp.Or(state.Rule.Spec().Label, state.Rule.Name()) // for clients
			quota.Violations = append(quota.Violations, &errdetails.QuotaFailure_Violation{Subject: name, Description: state.Limit().String()})
		}
	}
	details := []proto.Message{quota}
	seconds, known := gate.RetryAfter(d)
	if known {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)})
		e.Meta().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	for _, m := range details {
		if detail, err := connect.NewErrorDetail(m); err == nil {
			e.AddDetail(detail)
		}
	}
	return e
}
