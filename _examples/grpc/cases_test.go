package main

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/examples/internal/demotest"
	"github.com/weir-go/weir/examples/internal/rpccases"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/keyfunc"
)

// interceptors call an interceptor with a handler, without a server.
var interceptors = map[string]func(ctx context.Context, l *core.Limiter, key func(context.Context) (string, error), handler func() error) error{
	"unary": func(ctx context.Context, l *core.Limiter, key func(context.Context) (string, error), handler func() error) error {
		_, err := grpclimit.Unary(l, of(key), longDelay)(ctx, nil, new(grpc.UnaryServerInfo), func(context.Context, any) (any, error) { return nil, handler() })
		return err
	},
	"stream": func(ctx context.Context, l *core.Limiter, key func(context.Context) (string, error), handler func() error) error {
		return grpclimit.Stream(l, of(key), longDelay)(nil, streamWith{ctx: ctx}, new(grpc.StreamServerInfo), func(any, grpc.ServerStream) error { return handler() })
	},
}

var longDelay = gate.MaxDelay(time.Hour)

func of(key func(context.Context) (string, error)) keyfunc.Func {
	return func(ctx context.Context, _ *http.Request) (string, error) { return key(ctx) }
}

// verified stands for an interceptor that verifies the plan of the caller.
func verified(ctx context.Context) context.Context {
	return context.WithValue(ctx, planKey{}, strings.Join(metadata.ValueFromIncomingContext(ctx, rpccases.Plan), ""))
}

// A healthService runs a handler in each call.
type healthService struct {
	grpc_health_v1.UnimplementedHealthServer
	handler func(ctx context.Context) error
}

func (s healthService) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return new(grpc_health_v1.HealthCheckResponse), s.handler(ctx)
}

func (s healthService) Watch(_ *grpc_health_v1.HealthCheckRequest, stream grpc_health_v1.Health_WatchServer) error {
	return s.handler(stream.Context())
}

// recovered sets err after a panic.
func recovered(err *error) {
	if recover() != nil {
		*err = status.Error(codes.Internal, "panic")
	}
}

// The package grpclimit passes the cases of this example and the example connect.
func TestCases(t *testing.T) {
	rpccases.Run(t, rpccases.Example{
		Call:      interceptors,
		Code:      func(err error) connect.Code { return connect.Code(status.Code(err)) },
		NoKey:     keyfunc.ErrNoToken,
		Protocols: []string{"grpc"},
		Serve: func(listener net.Listener, service rpccases.Service) func() {
			key, plan := keyfunc.RemoteIP(), gate.Plan(planOf)
			if service.Metadata {
				key = keyfunc.Header(rpccases.User)
			}
			s := grpc.NewServer(
				grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
					defer recovered(&err)
					return handler(verified(ctx), req)
				}, grpclimit.Unary(service.Limiter, key, plan)),
				grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
					defer recovered(&err)
					return handler(srv, streamWith{ss, verified(ss.Context())})
				}, grpclimit.Stream(service.Limiter, key, plan)))
			grpc_health_v1.RegisterHealthServer(s, healthService{handler: service.Handler})
			go func() { _ = s.Serve(listener) }()
			return s.Stop
		},
	})
}

// A method has the policy of its route in a configuration, and a method that the server does not have has that of all routes.
func TestRoutes(t *testing.T) {
	config, err := rules.Parse("limits.yaml", []byte(`
policies:
  watch:
    rules: [{name: watch, algorithm: sliding_log, limit: 1/h}]
  all:
    rules: [{name: all, algorithm: sliding_log, limit: 4/h}]
routes:
  /grpc.health.v1.Health/Watch: watch
all_routes: all
`))
	demotest.Must(t, err)
	set, err := rules.New(memstore.New(), config)
	demotest.Must(t, err)
	all, err := set.Limiter("all")
	demotest.Must(t, err)
	stream := grpclimit.Stream(all, keyfunc.Constant("k"), gate.Routes(set))
	call := func(srv any, method string) codes.Code {
		return status.Code(stream(srv, streamWith{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: method}, func(any, grpc.ServerStream) error { return nil }))
	}
	const watch = "/grpc.health.v1.Health/Watch"
	for i, c := range []struct {
		srv    any
		method string
		want   codes.Code
	}{
		{struct{}{}, watch, codes.OK},
		{struct{}{}, watch, codes.ResourceExhausted},
		{nil, "/" + watch, codes.OK}, // the configuration would take this path for that of Watch
		{nil, watch + "/", codes.OK},
		{nil, "/unknown", codes.OK},
		{struct{}{}, "/grpc.health.v1.Health/List", codes.ResourceExhausted},
	} {
		if got := call(c.srv, c.method); got != c.want {
			t.Errorf("%d: %s: got %v, want %v", i, c.method, got, c.want)
		}
	}
}

// A client that has signed in has the limits of its plan, and a name that a client writes has no effect.
func TestSignedIn(t *testing.T) {
	rule := core.SlidingLog("calls", core.PerHour(1)).Plan("pro", core.PerHour(3))
	for verb, call := range verbs {
		client := client(t, memstore.New(), rule)
		demotest.Must(t, call(t.Context(), client, new(metadata.MD)))
		mallory := metadata.AppendToOutgoingContext(t.Context(), "x-user", "mallory")
		if err := call(mallory, client, new(metadata.MD)); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s: a name without a key: got %v, want RESOURCE_EXHAUSTED", verb, err)
		}
		ann := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer key-of-ann")
		for range 3 {
			demotest.Must(t, call(ann, client, new(metadata.MD)))
		}
		if err := call(ann, client, new(metadata.MD)); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s: the fourth call: got %v, want RESOURCE_EXHAUSTED", verb, err)
		}
	}
}
