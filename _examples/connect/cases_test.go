package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/connectlimit"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/examples/internal/demotest"
	"github.com/weir-go/weir/examples/internal/rpccases"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

type keyFunc = func(ctx context.Context) (string, error)

// callMiddleware calls the middleware with a handler, without a server, as a gRPC-Web client. The middleware treats
// streams in the same way.
func callMiddleware(ctx context.Context, l *core.Limiter, key keyFunc, handler func() error) error {
	writer := connect.NewErrorWriter()
	limit := nethttplimit.New(l, func(ctx context.Context, _ *http.Request) (string, error) { return key(ctx) }, gate.MaxDelay(2*time.Minute), connectlimit.Answers(writer))
	r := httptest.NewRequest("POST", "/", nil).WithContext(ctx)
	r.Header.Set("Content-Type", "application/grpc-web")
	w := httptest.NewRecorder()
	limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := handler(); err != nil {
			_ = writer.Write(w, r, err)
		}
	})).ServeHTTP(w, r)
	code, err := strconv.Atoi(w.Header().Get("Grpc-Status"))
	if err != nil {
		return nil
	}
	return connect.NewError(connect.Code(code), errors.New(w.Header().Get("Grpc-Message")))
}

func codeOf(err error) connect.Code {
	if err == nil {
		return 0
	}
	return connect.CodeOf(err)
}

// The example passes the cases that it has in common with the example grpc.
func TestCases(t *testing.T) {
	rpccases.Run(t, rpccases.Example{
		Call:      map[string]func(context.Context, *core.Limiter, keyFunc, func() error) error{"call": callMiddleware},
		Code:      codeOf,
		NoKey:     keyfunc.ErrNoToken,
		Protocols: []string{connect.ProtocolConnect, connect.ProtocolGRPC, connect.ProtocolGRPCWeb},
		Serve: func(listener net.Listener, service rpccases.Service) func() {
			opts := connect.WithRecover(func(context.Context, connect.Spec, http.Header, any) error {
				return connect.NewError(connect.CodeInternal, errors.New("panic"))
			})
			key := keyfunc.RemoteIP()
			if service.Metadata {
				key = keyfunc.Header(rpccases.User)
			}
			limit := nethttplimit.New(service.Limiter, key, gate.Plan(planOf), connectlimit.Answers(connect.NewErrorWriter(opts)))
			mux := http.NewServeMux()
			check, watch := grpc_health_v1.Health_Check_FullMethodName, grpc_health_v1.Health_Watch_FullMethodName
			mux.Handle(check, connect.NewUnaryHandler(check, func(ctx context.Context, _ *connect.Request[grpc_health_v1.HealthCheckRequest]) (*connect.Response[grpc_health_v1.HealthCheckResponse], error) {
				return connect.NewResponse(new(grpc_health_v1.HealthCheckResponse)), service.Handler(ctx)
			}, opts))
			mux.Handle(watch, connect.NewServerStreamHandler(watch, func(ctx context.Context, _ *connect.Request[grpc_health_v1.HealthCheckRequest], _ *connect.ServerStream[grpc_health_v1.HealthCheckResponse]) error {
				return service.Handler(ctx)
			}, opts))
			s := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				limit(mux).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), planKey{}, r.Header.Get(rpccases.Plan))))
			}))
			go func() { _ = s.Serve(listener) }()
			return func() { _ = s.Close() }
		},
	})
}

// A client of grpc-go gets the code, the details and the fields, and its retry policy does not repeat the call.
func TestGRPCGo(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.NewRule(core.Spec{Name: "greet.calls", Label: "calls", Algorithm: driver.SlidingLog, Limit: core.PerMinute(1)})))
	var attempts atomic.Int64
	h := newHandler(l, l)
	s := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		attempts.Add(1)
		h.ServeHTTP(w, r)
	}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	demotest.Must(t, err)
	go func() { _ = s.Serve(listener) }()
	defer s.Close()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(
		`{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":3,"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,"retryableStatusCodes":["RESOURCE_EXHAUSTED"]}}]}`))
	demotest.Must(t, err)
	defer conn.Close()
	var header, trailer metadata.MD
	call := func() error {
		return conn.Invoke(t.Context(), greet, wrapperspb.String("Ann"), new(wrapperspb.StringValue), grpc.Header(&header), grpc.Trailer(&trailer))
	}
	demotest.Must(t, call())
	got := status.Convert(call())
	if got.Code() != codes.ResourceExhausted || attempts.Load() != 2 {
		t.Fatalf("got %v after %d attempts, want RESOURCE_EXHAUSTED after 2", got, attempts.Load())
	}
	var wait time.Duration
	for _, detail := range got.Details() {
		switch d := detail.(type) {
		case *errdetails.RetryInfo:
			wait = d.RetryDelay.AsDuration()
		case *errdetails.QuotaFailure:
			if v := d.Violations[0]; v.QuotaId != "calls" || v.QuotaMetric != "requests" || v.QuotaValue != 1 {
				t.Errorf("got the violation %v", v)
			}
		}
	}
	if wait <= 59*time.Second || wait > time.Minute || len(got.Details()) != 2 {
		t.Errorf("got the wait %v and the details %v", wait, got.Details())
	}
	if len(header["ratelimit"]) != 1 || len(header["ratelimit-policy"]) != 1 || len(trailer["ratelimit"]) != 0 || len(trailer["grpc-retry-pushback-ms"]) != 1 {
		t.Errorf("got the header %v and the trailer %v", header, trailer)
	}
}

// A route of a file is a method.
func TestRoutes(t *testing.T) {
	c, err := rules.Parse("limits.yaml", []byte(`
policies:
  default:
    rules:
      - {name: default, algorithm: sliding_window, limit: 100/m}
  greet:
    rules:
      - {name: greet, algorithm: sliding_window, limit: 7/m}
routes:
  "POST `+greet+`": greet
`))
	demotest.Must(t, err)
	set, err := rules.New(memstore.New(), c)
	demotest.Must(t, err)
	l, err := set.Limiter("default")
	demotest.Must(t, err)
	h := nethttplimit.New(l, keyfunc.RemoteIP(), gate.Routes(set), connectlimit.Answers(connect.NewErrorWriter()))(newHandler(l, l))
	for path, want := range map[string]string{greet: `"greet";q=7;w=60`, clock: `"default";q=100;w=60`} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", path, nil))
		if got, _, _ := strings.Cut(w.Header().Get("RateLimit-Policy"), ", "); got != want {
			t.Errorf("%s: got the policy %q, want %q", path, got, want)
		}
	}
}

// A client of a Unix socket is rejected, also one that has bound its socket with the name of an address.
func TestUnixSocket(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.SlidingLog("calls", core.PerMinute(2))))
	s := newServer(newHandler(l, l))
	dir := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	demotest.Must(t, err)
	go func() { _ = s.Serve(listener) }()
	defer s.Close()
	t.Chdir(dir)
	for _, name := range []string{"", "10.0.0.1:80"} {
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return net.DialUnix("unix", &net.UnixAddr{Name: name, Net: "unix"}, &net.UnixAddr{Name: "s", Net: "unix"})
		}}
		client := connect.NewClient[grpc_health_v1.HealthCheckRequest, grpc_health_v1.HealthCheckResponse](&http.Client{Transport: transport}, "http://server"+greet)
		if _, err := client.CallUnary(t.Context(), connect.NewRequest(new(grpc_health_v1.HealthCheckRequest))); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("%q: got %v, want unauthenticated", name, err)
		}
		transport.CloseIdleConnections()
	}
}
