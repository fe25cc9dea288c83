package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weir-go/weir/connectlimit"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
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

// headerKey is keyfunc.Header for a field that is necessary, and has at most 256 bytes.
func headerKey(name string) keyfunc.Func {
	header := keyfunc.Header(name)
	return func(ctx context.Context, r *http.Request) (string, error) {
		key, err := header(ctx, r)
		if err != nil || len(key) > 256 {
			return "", keyfunc.ErrNoToken
		}
		return key, nil
	}
}

// The example passes the cases that it has in common with the example grpc.
func TestCases(t *testing.T) {
	rpccases.Run(t, rpccases.Example{
		Call:      map[string]func(context.Context, *core.Limiter, keyFunc, func() error) error{"call": callMiddleware},
		Code:      codeOf,
		NoKey:     keyfunc.ErrNoToken,
		Gate:      true,
		Protocols: []string{connect.ProtocolConnect, connect.ProtocolGRPC, connect.ProtocolGRPCWeb},
		Serve: func(listener net.Listener, service rpccases.Service) func() {
			opts := connect.WithRecover(func(context.Context, connect.Spec, http.Header, any) error {
				return connect.NewError(connect.CodeInternal, errors.New("panic"))
			})
			key := keyfunc.RemoteIP()
			if service.Metadata {
				key = headerKey(rpccases.User)
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
