package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/examples/internal/demotest"
	"github.com/weir-go/weir/examples/internal/rpccases"
	"github.com/weir-go/weir/keyfunc"
)

type keyFunc = func(ctx context.Context) (string, error)

// interceptors call an interceptor with a handler, without a server.
var interceptors = map[string]func(ctx context.Context, l *core.Limiter, key keyFunc, handler func() error) error{
	"unary": func(ctx context.Context, l *core.Limiter, key keyFunc, handler func() error) error {
		_, err := limit{limiter: l, key: key}.unary(ctx, nil, nil, func(context.Context, any) (any, error) { return nil, handler() })
		return err
	},
	"stream": func(ctx context.Context, l *core.Limiter, key keyFunc, handler func() error) error {
		return limit{limiter: l, key: key}.stream(nil, fakeStream{ctx: ctx}, nil, func(any, grpc.ServerStream) error { return handler() })
	},
}

type fakeStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s fakeStream) Context() context.Context { return s.ctx }
func (s fakeStream) SetTrailer(_ metadata.MD) {}

// from is the context of a call from an address.
func from(addr net.Addr) context.Context {
	return peer.NewContext(context.Background(), &peer.Peer{Addr: addr})
}

// tcp is the address of a TCP connection.
func tcp(t *testing.T, text string) net.Addr {
	t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", text)
	demotest.Must(t, err)
	return addr
}

// All addresses of a /64 share a limit, and a client has the key that it has in the HTTP middleware.
func TestPeerIP(t *testing.T) {
	for name, call := range interceptors {
		t.Run(name, func(t *testing.T) {
			l := core.Must(core.New(memstore.New(), core.SlidingLog("calls", core.PerMinute(2))))
			admitted := 0
			for i := range 20 {
				addr := tcp(t, fmt.Sprintf("[2001:db8::%x]:%d", i, 1000+i))
				if call(from(addr), l, peerIP, func() error { return nil }) == nil {
					admitted++
				}
			}
			if admitted != 2 {
				t.Errorf("admitted %d calls from 20 addresses of a /64, want 2", admitted)
			}
		})
	}
	for _, text := range []string{"203.0.113.9:1", "[::ffff:203.0.113.9]:2", "[2001:db8::1]:3", "[fe80::1%lo]:4"} {
		want, err := keyfunc.RemoteIP()(t.Context(), &http.Request{RemoteAddr: text})
		demotest.Must(t, err)
		for _, addr := range []net.Addr{tcp(t, text), textAddr(text)} {
			if got, err := peerIP(from(addr)); got != want || err != nil {
				t.Errorf("%T %s: got the key %q, %v, want %q, as in the HTTP middleware", addr, text, got, err, want)
			}
		}
	}
}

// A textAddr is the address of a call that has come through an http.Server.
type textAddr string

func (textAddr) Network() string  { return "tcp" }
func (a textAddr) String() string { return string(a) }

// A client without an IP address is rejected, also one that has bound a Unix socket with the name of an
// address.
func TestPeerIP_NoAddress(t *testing.T) {
	contexts := map[string]context.Context{
		"no peer":                   context.Background(),
		"no address":                from(nil),
		"a Unix socket":             from(&net.UnixAddr{Net: "unix"}),
		"a Unix socket as 10.0.0.1": from(&net.UnixAddr{Name: "10.0.0.1", Net: "unix"}),
		"a Unix socket with a port": from(&net.UnixAddr{Name: "10.0.0.1:80", Net: "unix"}),
		"a Unix socket of net/http": peer.NewContext(t.Context(), &peer.Peer{Addr: textAddr("10.0.0.1:80"), LocalAddr: &net.UnixAddr{Net: "unix"}}),
	}
	for name, ctx := range contexts {
		if key, err := peerIP(ctx); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: got %q, %v, want UNAUTHENTICATED", name, key, err)
		}
	}

	l := core.Must(core.New(memstore.New(), core.SlidingLog("calls", core.PerMinute(2))))
	s := grpc.NewServer(grpc.UnaryInterceptor(limit{limiter: l, key: peerIP}.unary), grpc.StreamInterceptor(limit{limiter: l, key: peerIP}.stream))
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	demotest.Must(t, err)
	go func() { _ = s.Serve(listener) }()
	defer s.Stop()
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	demotest.Must(t, err)
	defer func() { _ = conn.Close() }()
	for name, call := range verbs {
		if err := call(t.Context(), grpc_health_v1.NewHealthClient(conn), new(metadata.MD)); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: got %v, want UNAUTHENTICATED", name, err)
		}
	}
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

// The example passes the cases that it has in common with the example connect.
func TestCases(t *testing.T) {
	rpccases.Run(t, rpccases.Example{
		Call:      interceptors,
		Code:      func(err error) connect.Code { return connect.Code(status.Code(err)) },
		NoKey:     status.Error(codes.Unauthenticated, "sign in"),
		Protocols: []string{"grpc"},
		Serve: func(listener net.Listener, service rpccases.Service) func() {
			l := limit{service.Limiter, peerIP, planOf}
			if service.Metadata {
				l.key = metadataKey(rpccases.User)
			}
			s := grpc.NewServer(
				grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
					defer recovered(&err)
					return handler(verified(ctx), req)
				}, l.unary),
				grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
					defer recovered(&err)
					return handler(srv, streamWith{ss, verified(ss.Context())})
				}, l.stream))
			grpc_health_v1.RegisterHealthServer(s, healthService{handler: service.Handler})
			go func() { _ = s.Serve(listener) }()
			return s.Stop
		},
	})
}

// The key of binary metadata has the decoded bytes.
func TestMetadataKey_Binary(t *testing.T) {
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-user-bin", "\x00\xff"))
	if key, err := metadataKey("x-user-bin")(ctx); key != "header:x-user-bin:\x00\xff" || err != nil {
		t.Errorf("got %q, %v", key, err)
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
