package grpclimit

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/adapter"
	"github.com/weir-go/weir/keyfunc"
)

const name = "grpclimit"

// unknownMethod is the pattern of methods that the server does not have, which OpenTelemetry calls _OTHER. Without it, a
// policy would look up the path, which a client can write so that it has the route of another method.
const unknownMethod = "/_OTHER"

// Unary returns an interceptor that limits the unary calls of each key with l. It panics if l, key or an option is nil,
// if an option belongs to another adapter or has no meaning for calls (see the table of the package), or if the
// limiters use different Stores. The interceptor is safe for concurrent use.
//
// Handlers of admitted calls get the decision from [gate.FromContext]. An interceptor before this one, such as an
// authentication, can change the metadata of the call and store values in its context, which key functions get.
func Unary(l *core.Limiter, key keyfunc.Func, opts ...gate.Option) grpc.UnaryServerInterceptor {
	i := newInterceptor("Unary", l, key, opts)
	if i.messages != nil {
		panic(name + ": Unary: Messages is an option for Stream only")
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (res any, err error) {
		c := newCall(ctx, info.FullMethod)
		err = i.run(c, info.FullMethod, func(ctx context.Context) error {
			res, err = handler(ctx, req)
			return err
		})
		c.send(err)
		return res, err
	}
}

// Stream returns an interceptor that limits the streams of each key with l. A stream costs 1 when it begins, and has
// its places of [core.InFlight] rules until its handler has returned or panicked. For a cost of each message, see
// [Messages]. Everything else is as in [Unary].
func Stream(l *core.Limiter, key keyfunc.Func, opts ...gate.Option) grpc.StreamServerInterceptor {
	i := newInterceptor("Stream", l, key, opts)
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		c, pattern := newCall(ss.Context(), info.FullMethod), info.FullMethod
		if srv == nil { // grpc.UnknownServiceHandler
			pattern = unknownMethod
		}
		err := i.run(c, pattern, func(ctx context.Context) error {
			return handler(srv, &stream{ss, ctx, c, i})
		})
		c.send(err)
		return err
	}
}

// An interceptor is the part that Unary and Stream have in common.
type interceptor struct {
	gate     *adapter.Gate
	messages *core.Limiter // of the option Messages, or nil

	noKeys, failures sampledLog
}

func newInterceptor(function string, l *core.Limiter, key keyfunc.Func, opts []gate.Option) *interceptor {
	g, responder := adapter.New[limiterOfMessages](name, l, key, opts...)
	if g.ReadsBody() {
		panic(name + ": " + function + ": gate.CostOfBody reads the body of a request, which a call does not have")
	}
	i := &interceptor{gate: g}
	if messages, ok := responder(&gate.Rejection{Err: gate.ErrDenied}); ok {
		i.messages = messages()
		i.gate, _ = adapter.New[limiterOfMessages](name, l, keepKey(key), opts...)
	}
	return i
}

// run decides about c, and calls handler if it is admitted. pattern is that of the route.
func (i *interceptor) run(c *call, pattern string, handler func(ctx context.Context) error) (err error) {
	r, outcome, rejection := i.gate.Admit(c, c.root.header, &c.request, pattern)
	ctx := r.Context()
	if rejection != nil {
		return i.reject(c, rejection)
	}
	outcome.Run(func() (responded bool) {
		if err = handler(ctx); outcome.NeedsStatus() {
			outcome.Answer(statusOf(err))
		}
		return true
	})
	return err
}

// A sampledLog logs at most one error a minute. It has the time of the last one, in Unix seconds.
type sampledLog struct{ last atomic.Int64 }

func (l *sampledLog) warn(ctx context.Context, text string, err error) {
	now, last := time.Now().Unix(), l.last.Load()
	if (last == 0 || now-last >= 60) && l.last.CompareAndSwap(last, now) {
		slog.Default().LogAttrs(ctx, slog.LevelWarn, text, slog.String("error", err.Error()))
	}
}
