package main

import (
	"context"
	"errors"
	"log"
	"math"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

// A keyFunc returns the key of a call. Its error is the status of the call.
type keyFunc func(ctx context.Context) (string, error)

// peerIP returns the key of the address at the other end of the connection: the key that keyfunc.RemoteIP
// returns for the same client, so a gRPC and an HTTP server with one limiter count its calls together. All
// addresses of an IPv6 /64 are one client. Behind a proxy, the address is that of the proxy: use an identity
// that an interceptor before this one has verified, such as the subject of a token. A client can write
// anything into its metadata.
func peerIP(ctx context.Context) (string, error) {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil || p.Addr.Network() == "unix" { // a client may name its socket like an address
		return "", status.Error(codes.Unauthenticated, "the client has no address")
	}
	key, err := keyfunc.CanonicalIP(p.Addr.String())
	if err != nil {
		return "", status.Error(codes.Unauthenticated, "the client has no address")
	}
	return key, nil
}

// unary limits calls with one request and one response. A core.InFlight of l bounds the calls that run at the
// same time.
func unary(l *core.Limiter, key keyFunc) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		end, trailer, err := admit(ctx, l, key)
		if err != nil {
			_ = grpc.SetTrailer(ctx, trailer) // fails only outside of a call
			return nil, err
		}
		defer end()
		return handler(ctx, req)
	}
}

// stream limits streams. A rate of l bounds the streams that begin, and a core.InFlight the streams that are
// open at the same time. Messages are not counted.
func stream(l *core.Limiter, key keyFunc) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		end, trailer, err := admit(ss.Context(), l, key)
		if err != nil {
			ss.SetTrailer(trailer)
			return err
		}
		defer end()
		return handler(srv, ss)
	}
}

// admit decides about a call. If the call may run, the caller calls end after the handler. Otherwise, admit
// returns the status and the trailer of the call.
//
// Like the HTTP middleware, admit lets calls through during an outage of the store, unless the rule fails
// closed. Any other error is a fault of the program, such as an empty key, and does not open the limit.
func admit(ctx context.Context, l *core.Limiter, key keyFunc) (end func(), trailer metadata.MD, err error) {
	k, err := key(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, status.FromContextError(err).Err()
	}
	// The place of an InFlight is kept until the handler returns, also if the client has gone before: the
	// client chooses the deadline of ctx.
	lasting := context.WithoutCancel(ctx)
	r, err := l.Reserve(lasting, k, 1)
	switch {
	case errors.Is(err, core.ErrFailClosed):
		log.Print(err)
		return nil, nil, status.Error(codes.Unavailable, "the limit cannot be checked")
	case errors.Is(err, core.ErrUnavailable):
		log.Print("a call is not limited: ", err)
		return func() {}, nil, nil
	case err != nil:
		log.Print(err)
		return nil, nil, status.Error(codes.Internal, "the limit cannot be checked")
	}
	d := r.Decision()
	if !d.Allowed {
		trailer, err := denied(d)
		return nil, trailer, err
	}
	select { // a leaky bucket delays calls; the delay is 0 otherwise
	case <-time.After(d.Delay):
		return func() { ended(r.Release(lasting)) }, nil, nil
	case <-ctx.Done():
		ended(r.Refund(lasting))
		return nil, nil, status.FromContextError(ctx.Err()).Err()
	}
}

// ended logs the error of a Release or a Refund. A place that is not freed lapses after the Hold of its rule.
func ended(err error) {
	if err != nil {
		log.Print("a call was not released: ", err)
	}
}

// denied returns the status and the trailer of a denial. Clients read the wait in RetryInfo. A client
// with a retry policy obeys the trailer: it tries again after so many milliseconds, and never after a
// negative number (gRFC A6). If the wait is not known, because calls that run must end first, there is
// neither, and the client chooses the wait.
func denied(d core.Decision) (metadata.MD, error) {
	s := status.New(codes.ResourceExhausted, "the limit is exceeded")
	violations := &errdetails.QuotaFailure{}
	for _, state := range d.States() {
		if !state.Allowed && !state.Rule.IsShadow() {
			violations.Violations = append(violations.Violations, &errdetails.QuotaFailure_Violation{
				Subject: state.Rule.Name(), Description: state.Limit().String(),
			})
		}
	}
	if detailed, err := s.WithDetails(violations); err == nil {
		s = detailed
	}
	_, known := gate.RetryAfter(d)
	if !known && d.RetryAfter != core.Never {
		return nil, s.Err()
	}
	pushback := "-1"
	if known {
		if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)}); err == nil {
			s = detailed
		}
		if ms := (d.RetryAfter + time.Millisecond - 1).Milliseconds(); ms <= math.MaxInt32 {
			pushback = strconv.FormatInt(ms, 10)
		}
	}
	return metadata.Pairs("grpc-retry-pushback-ms", pushback), s.Err()
}
