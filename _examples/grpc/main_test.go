package main

import (
	"context"
	"math"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
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

// A denial has the status, the details and the trailer that clients understand.
func TestDenied(t *testing.T) {
	for name, call := range verbs {
		for _, c := range []struct {
			name     string
			rule     core.Rule
			admitted int
			retries  bool
		}{
			{"for a while", core.SlidingLog("calls", core.PerMinute(2)), 2, true},
			{"for a year", core.FixedWindow("calls", core.Per(1, 100*365*24*time.Hour)), 1, true},
			{"for ever", core.SlidingLog("calls", core.Blocked), 0, false},
			{"by no shadow rule", core.SlidingLog("calls", core.Blocked).Shadow(), math.MaxInt, false},
		} {
			t.Run(name+" "+c.name, func(t *testing.T) {
				client := client(t, memstore.New(), c.rule)
				for range min(c.admitted, 10) {
					demotest.Must(t, call(t.Context(), client, new(metadata.MD)))
				}
				if c.admitted == math.MaxInt {
					return
				}
				var trailer metadata.MD
				err := call(t.Context(), client, &trailer)
				s := status.Convert(err)
				if s.Code() != codes.ResourceExhausted {
					t.Fatalf("got %v, want RESOURCE_EXHAUSTED", err)
				}
				var retry *errdetails.RetryInfo
				var quota *errdetails.QuotaFailure
				for _, d := range s.Details() {
					switch d := d.(type) {
					case *errdetails.RetryInfo:
						retry = d
					case *errdetails.QuotaFailure:
						quota = d
					}
				}
				if quota == nil || len(quota.Violations) != 1 || quota.Violations[0].Subject != "calls" || quota.Violations[0].Description != c.rule.Limit().String() {
					t.Errorf("got the quota %v", quota)
				}
				want := "-1"
				if c.retries {
					wait := retry.GetRetryDelay().AsDuration()
					if wait <= 0 {
						t.Fatalf("got the wait %v", wait)
					}
					if ms := wait.Milliseconds() + 1; wait%time.Millisecond != 0 && ms <= math.MaxInt32 {
						want = strconv.FormatInt(ms, 10)
					}
				} else if retry != nil {
					t.Errorf("got the wait %v, want none", retry)
				}
				if got := trailer.Get("grpc-retry-pushback-ms"); !slices.Equal(got, []string{want}) {
					t.Errorf("got the pushback %q, want %q", got, want)
				}
			})
		}
	}
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

// Streams that are open at the same time are limited. It is not known when one will end, so a client with a
// retry policy chooses the wait itself. The end of a stream frees its place.
func TestOpenStreams(t *testing.T) {
	client := client(t, memstore.New(), core.InFlight("streams", 2))
	watch := func(ctx context.Context) (grpc_health_v1.Health_WatchClient, error) {
		s, err := client.Watch(ctx, new(grpc_health_v1.HealthCheckRequest))
		demotest.Must(t, err)
		_, err = s.Recv()
		return s, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, ctx := range []context.Context{ctx, t.Context()} {
		_, err := watch(ctx)
		demotest.Must(t, err)
	}
	s, err := watch(t.Context())
	if status.Code(err) != codes.ResourceExhausted || len(s.Trailer().Get("grpc-retry-pushback-ms")) != 0 {
		t.Errorf("a third stream: got %v and the trailer %v, want RESOURCE_EXHAUSTED without a wait", err, s.Trailer())
	}
	for _, d := range status.Convert(err).Details() {
		if retry, ok := d.(*errdetails.RetryInfo); ok {
			t.Errorf("got the wait %v, want none", retry)
		}
	}
	cancel()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err = watch(t.Context()); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after the end of the first stream: got %v", err)
		}
	}
}

// The rule of a leaky bucket delays the calls.
func TestDelay(t *testing.T) {
	client := client(t, memstore.New(), core.LeakyBucket("calls", core.PerSecond(10).WithBurst(5)))
	begun := time.Now()
	for range 3 {
		demotest.Must(t, verbs["unary"](t.Context(), client, new(metadata.MD)))
	}
	if took := time.Since(begun); took < 199*time.Millisecond {
		t.Errorf("three calls took %v, want 200 ms or more", took)
	}
}
