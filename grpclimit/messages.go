package grpclimit

import (
	"context"
	"errors"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/adapter"
	"github.com/weir-go/weir/keyfunc"
)

// limiterOfMessages is the function of the option Messages.
type limiterOfMessages = func() *core.Limiter

// Messages is an option for [Stream]. Each message that the handler receives costs 1 of l, for the key of the stream. A
// message over the limit waits, as in [core.Limiter.Wait], before the handler gets it. A client that goes on sending is
// slowed down by the flow control of HTTP/2. The request of a stream with one request is a message, too.
//
//	grpclimit.Stream(streams, user, grpclimit.Messages(messages))
//
// If the wait would not end before the deadline of the stream, or the message can never be admitted, the handler gets
// RESOURCE_EXHAUSTED. During an outage of the Store, messages are not limited, unless a rule fails closed
// (core.ErrFailClosed): the handler then gets UNAVAILABLE. The options of package gate are about the stream and not about
// its messages, and l has its limits without a plan. The messages of a stream that the gate skips, or that has no key,
// are not limited.
//
// Messages panics if l is nil or has a [core.InFlight], whose places a message could not free.
func Messages(l *core.Limiter) gate.Option {
	if l == nil {
		panic(name + ": Messages: limiter is nil")
	}
	for _, rule := range l.Rules() {
		if rule.Kind().Holds {
			panic(name + ": Messages: a message does not free the place of the rule " + rule.Name())
		}
	}
	return adapter.Denied(name, func() *core.Limiter { return l })
}

// keepKey returns key, which keeps its result in the call.
func keepKey(key keyfunc.Func) keyfunc.Func {
	return func(ctx context.Context, r *http.Request) (string, error) {
		k, err := key(ctx, r)
		if c, ok := r.Context().Value(callKey{}).(*call); ok {
			c.key, c.keyErr = k, err
		}
		return k, err
	}
}

// keyOfMessages returns the key of the stream, or "" if it has none.
func (c *call) keyOfMessages() string {
	var lookup interface{ FindKey() (string, error) } // the error of gate.Caller
	if errors.As(c.keyErr, &lookup) {
		c.key, c.keyErr = lookup.FindKey()
	}
	if c.keyErr != nil {
		return ""
	}
	return c.key
}

// A stream is a stream with the context of the gate, which sends the header fields before anything else.
type stream struct {
	grpc.ServerStream
	ctx         context.Context
	call        *call
	interceptor *interceptor
}

func (s *stream) Context() context.Context { return s.ctx }

func (s *stream) SendHeader(md metadata.MD) error {
	s.call.send(nil)
	return s.ServerStream.SendHeader(md)
}

func (s *stream) SendMsg(m any) error {
	s.call.send(nil)
	return s.ServerStream.SendMsg(m)
}

// RecvMsg receives a message, and waits until it is admitted.
func (s *stream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err != nil || s.interceptor.messages == nil {
		return err
	}
	key := s.call.keyOfMessages()
	if key == "" {
		return nil
	}
	switch err = s.interceptor.messages.Wait(s.ctx, key); {
	case err == nil:
		return nil
	case s.ctx.Err() != nil:
		return status.FromContextError(s.ctx.Err()).Err()
	case errors.Is(err, core.ErrNeverAdmitted), errors.Is(err, core.ErrDeadlineTooNear), errors.Is(err, core.ErrTooManyWaiters):
		return status.Error(codes.ResourceExhausted, "the messages of the stream are over the limit")
	}
	s.interceptor.failures.warn(s.ctx, "weir: the store could not decide about a message", err)
	switch {
	case errors.Is(err, core.ErrFailClosed):
		return status.Error(codes.Unavailable, "the limit cannot be checked")
	case errors.Is(err, core.ErrUnavailable):
		return nil
	}
	return status.Error(codes.Internal, "the limit cannot be checked")
}
