package main

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/examples/internal/demotest"
)

// client returns a client of a new server, whose calls and streams have the same rule.
func client(t *testing.T, store core.Store, rule core.Rule, opts ...grpc.DialOption) grpc_health_v1.HealthClient {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	demotest.Must(t, err)
	l := core.Must(core.New(store, rule))
	s := newServer(l, l)
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	demotest.Must(t, err)
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return grpc_health_v1.NewHealthClient(conn)
}

// verbs make a call, with a request and as a stream.
var verbs = map[string]func(ctx context.Context, c grpc_health_v1.HealthClient, trailer *metadata.MD) error{
	"unary": func(ctx context.Context, c grpc_health_v1.HealthClient, trailer *metadata.MD) error {
		_, err := c.Check(ctx, new(grpc_health_v1.HealthCheckRequest), grpc.Trailer(trailer))
		return err
	},
	"stream": func(ctx context.Context, c grpc_health_v1.HealthClient, trailer *metadata.MD) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s, err := c.Watch(ctx, new(grpc_health_v1.HealthCheckRequest))
		if err != nil {
			return err
		}
		_, err = s.Recv()
		*trailer = s.Trailer()
		return err
	},
}

// attempts counts the attempts of the calls of a client.
type attempts struct{ n atomic.Int64 }

func (*attempts) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*attempts) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*attempts) HandleConn(context.Context, stats.ConnStats)                       {}
func (a *attempts) HandleRPC(_ context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.Begin); ok {
		a.n.Add(1)
	}
}

// A client with a retry policy waits as long as the server demands, and no longer: its second attempt
// is admitted. A blocked client does not try again.
func TestRetryPolicy(t *testing.T) {
	for _, c := range []struct {
		name     string
		rule     core.Rule
		code     codes.Code
		attempts int64
		wait     time.Duration
	}{
		{"a wait", core.TokenBucket("calls", core.PerSecond(2).WithBurst(1)), codes.OK, 2, 450 * time.Millisecond},
		{"blocked", core.TokenBucket("calls", core.Blocked), codes.ResourceExhausted, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var counter attempts
			client := client(t, memstore.New(), c.rule, grpc.WithDefaultServiceConfig(retries), grpc.WithStatsHandler(&counter))
			if c.code == codes.OK {
				demotest.Must(t, verbs["unary"](t.Context(), client, new(metadata.MD)))
			}
			counter.n.Store(0)
			begun := time.Now()
			err := verbs["unary"](t.Context(), client, new(metadata.MD))
			took := time.Since(begun)
			if status.Code(err) != c.code || counter.n.Load() != c.attempts || took < c.wait {
				t.Errorf("got %v after %d attempts and %v, want %v after %d and at least %v", err, counter.n.Load(), took, c.code, c.attempts, c.wait)
			}
		})
	}
}
