package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/examples/internal/demotest"
	"github.com/weir-go/weir/keyfunc"
)

// interceptors call an interceptor with a handler, without a server.
var interceptors = map[string]func(ctx context.Context, l *core.Limiter, key keyFunc, handler func() error) error{
	"unary": func(ctx context.Context, l *core.Limiter, key keyFunc, handler func() error) error {
		_, err := unary(l, key)(ctx, nil, nil, func(context.Context, any) (any, error) { return nil, handler() })
		return err
	},
	"stream": func(ctx context.Context, l *core.Limiter, key keyFunc, handler func() error) error {
		return stream(l, key)(nil, fakeStream{ctx: ctx}, nil, func(any, grpc.ServerStream) error { return handler() })
	},
}

type fakeStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s fakeStream) Context() context.Context { return s.ctx }
func (s fakeStream) SetTrailer(_ metadata.MD) {}

func ann(context.Context) (string, error) { return "user:ann", nil }

func succeed() error { return nil }

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
				if call(from(addr), l, peerIP, succeed) == nil {
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
	}
	for name, ctx := range contexts {
		if key, err := peerIP(ctx); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: got %q, %v, want UNAUTHENTICATED", name, key, err)
		}
	}

	l := core.Must(core.New(memstore.New(), core.SlidingLog("calls", core.PerMinute(2))))
	s := grpc.NewServer(grpc.UnaryInterceptor(unary(l, peerIP)), grpc.StreamInterceptor(stream(l, peerIP)))
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

// Only an outage of the store admits calls without a limit. The clients do not get the text of an error.
func TestErrors(t *testing.T) {
	const secret = "redis-7.internal"
	failing := func(err error) *core.Limiter {
		fake := new(storetest.Fake).Set(storetest.Fail(err))
		return core.Must(core.New(fake, core.SlidingLog("calls", core.PerMinute(2))))
	}
	working := core.Must(core.New(memstore.New(), core.SlidingLog("calls", core.PerMinute(1000))))
	other := core.Must(core.New(memstore.New(), core.SlidingLog("calls", core.PerMinute(2))))
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	outage := fmt.Errorf("%w: dial %s", core.ErrUnavailable, secret)
	for _, c := range []struct {
		name  string
		ctx   context.Context
		l     *core.Limiter
		key   keyFunc
		want  codes.Code
		calls int // of the handler
	}{
		{"outage", context.Background(), failing(outage), ann, codes.OK, 1},
		{"outage, canceled call", canceled, failing(outage), ann, codes.Canceled, 0},
		{"fail-closed rule", context.Background(), failing(errors.Join(outage, core.ErrFailClosed)), ann, codes.Unavailable, 0},
		{"canceled call", canceled, working, ann, codes.Canceled, 0},
		{"deadline of the call", late, working, ann, codes.DeadlineExceeded, 0},
		{"empty key", context.Background(), working, func(context.Context) (string, error) { return "", nil }, codes.Internal, 0},
		{"key function", context.Background(), working, func(context.Context) (string, error) {
			return "", status.Error(codes.Unauthenticated, "sign in")
		}, codes.Unauthenticated, 0},
		{"function of Choose", context.Background(), working.Choose(func(context.Context, string) (*core.Limiter, error) {
			return nil, errors.New(secret)
		}), ann, codes.Internal, 0},
		{"another limiter of Choose", context.Background(), working.Choose(func(context.Context, string) (*core.Limiter, error) {
			return other, nil
		}), ann, codes.Internal, 0},
		{"too many rules", context.Background(), failing(fmt.Errorf("%w: %s", driver.ErrInvalidCharge, secret)), ann, codes.Internal, 0},
		{"unknown error of a store", context.Background(), failing(errors.New(secret)), ann, codes.Internal, 0},
	} {
		for verb, call := range interceptors {
			t.Run(c.name+" "+verb, func(t *testing.T) {
				calls := 0
				err := call(c.ctx, c.l, c.key, func() error { calls++; return nil })
				if status.Code(err) != c.want || calls != c.calls {
					t.Errorf("got %v and %d calls of the handler, want %v and %d", err, calls, c.want, c.calls)
				}
				if strings.Contains(fmt.Sprint(err), secret) {
					t.Errorf("the client gets %v", err)
				}
			})
		}
	}
}

// A place is taken while a call runs. It is free when the handler has returned, also with an error or by a
// panic.
func TestInFlight(t *testing.T) {
	for verb, call := range interceptors {
		for name, end := range map[string]func() error{
			"success": succeed,
			"error":   func() error { return status.Error(codes.NotFound, "not found") },
			"panic":   func() error { panic("a fault of the handler") },
		} {
			t.Run(verb+" "+name, func(t *testing.T) {
				l := core.Must(core.New(memstore.New(), core.InFlight("running", 1), core.SlidingLog("calls", core.PerMinute(100))))
				for range 3 {
					admitted := false
					func() {
						defer func() { _ = recover() }()
						_ = call(t.Context(), l, ann, func() error {
							admitted = true
							if err := call(t.Context(), l, ann, succeed); status.Code(err) != codes.ResourceExhausted {
								t.Errorf("a second call at the same time: got %v, want RESOURCE_EXHAUSTED", err)
							}
							return end()
						})
					}()
					if !admitted {
						t.Fatal("the call before has not freed its place")
					}
				}
			})
		}
	}
}

// A call whose client has gone keeps its place until its handler returns: otherwise a client could have any
// number of handlers run with short deadlines.
func TestInFlight_HandlerOutlivesCall(t *testing.T) {
	for verb, call := range interceptors {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := core.Must(core.New(memstore.New(), core.InFlight("running", 1)))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				go func() {
					_ = call(ctx, l, ann, func() error { time.Sleep(5 * time.Minute); return nil })
				}()
				time.Sleep(4 * time.Minute)
				if err := call(t.Context(), l, ann, succeed); status.Code(err) != codes.ResourceExhausted {
					t.Errorf("while the handler runs: got %v, want RESOURCE_EXHAUSTED", err)
				}
				time.Sleep(2 * time.Minute)
				if err := call(t.Context(), l, ann, succeed); err != nil {
					t.Errorf("after the handler: got %v", err)
				}
			})
		})
	}
}

// A call that ends during its delay does not run, and is refunded.
func TestDelay_Canceled(t *testing.T) {
	for verb, call := range interceptors {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := core.Must(core.New(memstore.New(), core.LeakyBucket("calls", core.PerMinute(1).WithBurst(2)), core.InFlight("running", 1)))
				demotest.Must(t, call(t.Context(), l, ann, succeed))
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				calls := 0
				if err := call(ctx, l, ann, func() error { calls++; return nil }); status.Code(err) != codes.DeadlineExceeded || calls != 0 {
					t.Errorf("got %v and %d calls of the handler, want DEADLINE_EXCEEDED and none", err, calls)
				}
				d, err := l.Peek(t.Context(), "user:ann")
				demotest.Must(t, err)
				if running, _ := d.StateOf("running"); running.Used() != 0 || !d.Allowed || d.Delay > time.Minute {
					t.Errorf("got %v after %v, want a refund", d, d.Delay)
				}
			})
		})
	}
}

// A call asks the store once, and a second time only to free a place.
func TestStoreCalls(t *testing.T) {
	for verb, call := range interceptors {
		for want, rule := range map[int]core.Rule{
			1: core.SlidingLog("calls", core.PerMinute(10)),
			2: core.InFlight("calls", 10),
		} {
			fake := new(storetest.Fake)
			demotest.Must(t, call(t.Context(), core.Must(core.New(fake, rule)), ann, succeed))
			if fake.Calls() != want {
				t.Errorf("%s, %v: got %d calls of the store, want %d", verb, rule, fake.Calls(), want)
			}
		}
	}
}
