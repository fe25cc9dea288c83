package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"math"
	"net"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

// A limit has two interceptors, unary and stream. A core.InFlight of limiter bounds the calls that run at the
// same time. key returns the key of a call, or its status. plan, if not nil, returns the plan of the caller, or
// "", as an interceptor before this one has stored it in ctx. An unknown plan has the limits without a plan.
type limit struct {
	limiter *core.Limiter
	key     func(ctx context.Context) (string, error)
	plan    func(ctx context.Context) string
}

// peerIP returns the key of the address at the other end of the connection: that of keyfunc.RemoteIP, so a gRPC
// and an HTTP server with one limiter count a client once. Behind a proxy, it is the key of the proxy.
func peerIP(ctx context.Context) (string, error) {
	p, ok := peer.FromContext(ctx)
	unix := func(a net.Addr) bool { return a != nil && a.Network() == "unix" } // a client may name its socket like an address
	if ok && p.Addr != nil && !unix(p.Addr) && !unix(p.LocalAddr) {            // with ServeHTTP, only LocalAddr tells
		if key, err := keyfunc.CanonicalIP(p.Addr.String()); err == nil {
			return key, nil
		}
	}
	return "", status.Error(codes.Unauthenticated, "the client has no address")
}

// metadataKey makes a key of the metadata called name, in lower case: that of keyfunc.Header. A client can write
// anything into its metadata, and evade the limit. Use a name whose value an interceptor before this one has
// verified, such as an API key, or that a proxy sets, which all clients must come through. The value has 1 to
// 256 bytes, for a name that ends in "-bin" the decoded ones.
func metadataKey(name string) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		values := metadata.ValueFromIncomingContext(ctx, name)
		if len(values) != 1 || values[0] == "" || len(values[0]) > 256 {
			return "", status.Error(codes.Unauthenticated, "one value of "+name+" is necessary")
		}
		return "header:" + name + ":" + values[0], nil
	}
}

// unary is a grpc.UnaryServerInterceptor.
func (l limit) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (res any, err error) {
	err = l.run(ctx, func() error { res, err = handler(ctx, req); return err })
	return res, err
}

// stream is a grpc.StreamServerInterceptor. A stream costs 1 when it begins. Its messages are not counted.
func (l limit) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return l.run(ss.Context(), func() error { return handler(srv, ss) })
}

// run decides about a call, and calls handler if it is admitted. During an outage of the store, calls are admitted
// unless a rule fails closed. Any other error rejects the call.
func (l limit) run(ctx context.Context, handler func() error) error {
	key, err := l.key(ctx)
	if err != nil {
		return err
	}
	ask := core.Ask{Limiter: l.limiter, Key: key}
	if l.plan != nil {
		ask.Plan = l.plan(ctx)
	}
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	lasting := context.WithoutCancel(ctx) // a place is kept until the handler returns, also if the client has gone
	r, err := core.ReserveTogether(lasting, ask)
	switch {
	case errors.Is(err, core.ErrFailClosed):
		log.Print(err)
		return status.Error(codes.Unavailable, "the limit cannot be checked")
	case errors.Is(err, core.ErrUnavailable):
		log.Print("a call is not limited: ", err)
		return handler()
	case err != nil:
		log.Print(err)
		return status.Error(codes.Internal, "the limit cannot be checked")
	case !r.Decision().Allowed:
		return denied(ctx, r.Decision())
	}
	end := func(free func(context.Context) error) {
		if err := free(lasting); err != nil { // a place that is not freed lapses after the Hold of its rule
			log.Print("a call was not released: ", err)
		}
	}
	select { // a leaky bucket delays calls; the delay is 0 otherwise
	case <-time.After(r.Decision().Delay):
		defer end(r.Release)
		return handler()
	case <-ctx.Done():
		end(r.Refund)
		return status.FromContextError(ctx.Err()).Err()
	}
}

// denied returns the status of a denial, with the wait in RetryInfo, and sets the trailer. A client with a retry
// policy obeys the trailer: it tries again after so many milliseconds, and never after a negative number (gRFC
// A6). There is neither if the wait is unknown because calls that run must end first.
func denied(ctx context.Context, d core.Decision) error {
	s, quota := status.New(codes.ResourceExhausted, "the limit is exceeded"), new(errdetails.QuotaFailure)
	for _, state := range d.States() {
		if !state.Allowed && !state.Rule.IsShadow() {
			name := cmp.Or(state.Rule.Spec().Label, state.Rule.Name()) // for clients
			quota.Violations = append(quota.Violations, &errdetails.QuotaFailure_Violation{Subject: name, Description: state.Limit().String()})
		}
	}
	_, known := gate.RetryAfter(d)
	details := []protoadapt.MessageV1{quota}
	if known {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)})
	}
	if detailed, err := s.WithDetails(details...); err == nil {
		s = detailed
	}
	pushback := "-1"
	if ms := (d.RetryAfter-1)/time.Millisecond + 1; ms <= math.MaxInt32 {
		pushback = strconv.FormatInt(int64(ms), 10)
	}
	if known || d.RetryAfter == core.Never {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", pushback)) // fails only outside of a call
	}
	return s.Err()
}
