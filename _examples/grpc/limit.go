package main

import (
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
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/weir/core"
)

// A keyFunc returns the key of a call. Its error is the status of the call.
type keyFunc func(ctx context.Context) (string, error)

// peerIP is the address at the other end of the connection. Behind a proxy that is the address of the
// proxy: use an identity that an interceptor before this one has verified, such as the subject of a
// token. Metadata alone is whatever the client has written into it.
func peerIP(ctx context.Context) (string, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return "", status.Error(codes.Unauthenticated, "the address of the client is unknown")
	}
	host, _, err := net.SplitHostPort(p.Addr.String())
	if err != nil { // a Unix socket, which has no addresses
		return "", status.Error(codes.Unauthenticated, "the client has no address")
	}
	return host, nil
}

// unary limits calls with one request. A stream counts once, when it begins: see stream.
func unary(l *core.Limiter, key keyFunc) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		trailer, err := admit(ctx, l, key)
		if err != nil {
			_ = grpc.SetTrailer(ctx, trailer) // fails only outside of a call
			return nil, err
		}
		return handler(ctx, req)
	}
}

func stream(l *core.Limiter, key keyFunc) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		trailer, err := admit(ss.Context(), l, key)
		if err != nil {
			ss.SetTrailer(trailer)
			return err
		}
		return handler(srv, ss)
	}
}

// admit returns the status and the trailer of a call that is not let through. Like the HTTP middleware,
// it lets calls through if the store fails, unless the rule fails closed.
func admit(ctx context.Context, l *core.Limiter, key keyFunc) (metadata.MD, error) {
	k, err := key(ctx)
	if err != nil {
		return nil, err
	}
	d, err := l.Allow(ctx, k)
	switch {
	case ctx.Err() != nil:
		return nil, status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, core.ErrFailClosed):
		return nil, status.Error(codes.Unavailable, "the limit cannot be checked")
	case err != nil:
		log.Print(err)
		return nil, nil
	case !d.Allowed:
		return denied(d)
	}
	select { // a leaky bucket delays calls; the time is 0 otherwise
	case <-time.After(d.Delay):
		return nil, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// denied returns the status and the trailer of a denial. Clients read the wait in RetryInfo. A client
// with a retry policy obeys the trailer: it tries again after so many milliseconds, and never after a
// negative number (gRFC A6).
func denied(d core.Decision) (metadata.MD, error) {
	s, pushback := status.New(codes.ResourceExhausted, "the limit is exceeded"), "-1"
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
	if d.RetryAfter != core.Never {
		if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)}); err == nil {
			s = detailed
		}
		if ms := (d.RetryAfter + time.Millisecond - 1).Milliseconds(); ms <= math.MaxInt32 {
			pushback = strconv.FormatInt(ms, 10)
		}
	}
	return metadata.Pairs("grpc-retry-pushback-ms", pushback), s.Err()
}
