package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/examples/internal/demotest"
	"github.com/weir-go/weir/examples/internal/rpccases"
	"github.com/weir-go/weir/keyfunc"
)

type keyFunc = func(ctx context.Context) (string, error)

// interceptors call the interceptor with a handler, without a server.
var interceptors = map[string]func(ctx context.Context, l *core.Limiter, key keyFunc, handler func() error) error{
	"unary": func(ctx context.Context, l *core.Limiter, key keyFunc, handler func() error) error {
		_, err := limitBy(l, key).WrapUnary(func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) {
			return nil, handler()
		})(ctx, connect.NewRequest(new(grpc_health_v1.HealthCheckRequest)))
		return err
	},
	"stream": func(ctx context.Context, l *core.Limiter, key keyFunc, handler func() error) error {
		return limitBy(l, key).WrapStreamingHandler(func(context.Context, connect.StreamingHandlerConn) error {
			return handler()
		})(ctx, fakeConn{})
	},
}

func limitBy(l *core.Limiter, key keyFunc) limit {
	return limit{limiter: l, key: func(ctx context.Context, _ connect.Peer, _ http.Header) (string, error) { return key(ctx) }}
}

type fakeConn struct{ connect.StreamingHandlerConn }

func (fakeConn) Peer() connect.Peer         { return connect.Peer{} }
func (fakeConn) RequestHeader() http.Header { return nil }

// codeOf returns the code that a client gets for an error of the interceptor: a server of package connect finds
// that of an error of a context.
func codeOf(err error) connect.Code {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, context.Canceled):
		return connect.CodeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return connect.CodeDeadlineExceeded
	}
	return connect.CodeOf(err)
}

// The example passes the cases that it has in common with the example grpc.
func TestCases(t *testing.T) {
	rpccases.Run(t, rpccases.Example{
		Call:      interceptors,
		Code:      codeOf,
		NoKey:     connect.NewError(connect.CodeUnauthenticated, errors.New("sign in")),
		Protocols: []string{connect.ProtocolConnect, connect.ProtocolGRPC, connect.ProtocolGRPCWeb},
		Serve: func(listener net.Listener, service rpccases.Service) func() {
			l := limit{service.Limiter, peerIP, planOf}
			if service.Metadata {
				l.key = headerKey(rpccases.User)
			}
			opts := connect.WithHandlerOptions(connect.WithInterceptors(l), connect.WithRecover(func(context.Context, connect.Spec, http.Header, any) error {
				return connect.NewError(connect.CodeInternal, errors.New("panic"))
			}))
			mux := http.NewServeMux()
			check, watch := grpc_health_v1.Health_Check_FullMethodName, grpc_health_v1.Health_Watch_FullMethodName
			mux.Handle(check, connect.NewUnaryHandler(check, func(ctx context.Context, _ *connect.Request[grpc_health_v1.HealthCheckRequest]) (*connect.Response[grpc_health_v1.HealthCheckResponse], error) {
				return connect.NewResponse(new(grpc_health_v1.HealthCheckResponse)), service.Handler(ctx)
			}, opts))
			mux.Handle(watch, connect.NewServerStreamHandler(watch, func(ctx context.Context, _ *connect.Request[grpc_health_v1.HealthCheckRequest], _ *connect.ServerStream[grpc_health_v1.HealthCheckResponse]) error {
				return service.Handler(ctx)
			}, opts))
			s := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), planKey{}, r.Header.Get(rpccases.Plan))))
			}))
			go func() { _ = s.Serve(listener) }()
			return func() { _ = s.Close() }
		},
	})
}

// A client has the key that it has in the HTTP middleware.
func TestPeerIP(t *testing.T) {
	for _, addr := range []string{"203.0.113.9:1", "[::ffff:203.0.113.9]:2", "[2001:db8::1]:3", "[fe80::1%lo]:4"} {
		want, err := keyfunc.RemoteIP()(t.Context(), &http.Request{RemoteAddr: addr})
		demotest.Must(t, err)
		if got, err := peerIP(t.Context(), connect.Peer{Addr: addr}, nil); got != want || err != nil {
			t.Errorf("%s: got the key %q, %v, want %q, as in the HTTP middleware", addr, got, err, want)
		}
	}
}

// A client of a Unix socket is rejected, also one that has bound its socket with the name of an address.
func TestPeerIP_Unix(t *testing.T) {
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

// The values of a binary field have no key.
func TestHeaderKey_Binary(t *testing.T) {
	h := http.Header{"X-User-Bin": {"AP8"}}
	if key, err := headerKey("X-User-Bin")(t.Context(), connect.Peer{}, h); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("got %q, %v, want unauthenticated", key, err)
	}
}
