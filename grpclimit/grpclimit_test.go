package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// The suite gatetest is for applications of net/http. Its cases of contexts, hang-ups, several gates, refunds, routes, places,
// panics, construction, concurrency, allocations and errors of handlers have tests here. No meaning for calls have problem
// documents and Accept, methods of a ResponseWriter, hijacked connections, uploads, the cost of a body, OnDenied,
// OnRejected, Check, Deny, and an address that the framework finds.

type caller = func(ctx context.Context, conn *grpc.ClientConn, kv ...string) result

// An admitted call has the fields as metadata, once. A denial has them, the details, and the pushback, in one frame.
func TestAnswers(t *testing.T) {
	rule := core.NewRule(core.Spec{Name: "internal-7", Label: "tokens", Unit: "tokens", Algorithm: core.AlgorithmSlidingLog, Limit: core.PerMinute(1)})
	each(t, func(t *testing.T, call caller) {
		conn := setup{limiter: limits(rule, core.SlidingLog("shadow", core.Blocked).Shadow())}.start(t)
		r := call(t.Context(), conn)
		if got := r.header.Get("ratelimit"); r.err != nil || !slices.Equal(got, []string{`"tokens";r=0;t=60`}) {
			t.Errorf("got %v and the field %q", r.err, got)
		}
		if got := r.fields("ratelimit-policy"); !slices.Equal(got, []string{`"tokens";q=1;w=60`}) {
			t.Errorf("got the policies %q", got)
		}
		r = call(t.Context(), conn)
		retry, quota := r.details()
		if r.code() != codes.ResourceExhausted || quota == nil || len(quota.Violations) != 1 {
			t.Fatalf("got %v with the quota %v", r.err, quota)
		}
		if v := quota.Violations[0]; v.Subject != "" || v.Description != "1/m" || v.QuotaId != "tokens" || v.QuotaMetric != "tokens" || v.QuotaValue != 1 {
			t.Errorf("got the violation %v", v)
		}
		wait := retry.GetRetryDelay().AsDuration()
		pushback := strconv.FormatInt(int64((wait-1)/time.Millisecond)+1, 10)
		if wait <= 55*time.Second || wait > time.Minute || !slices.Equal(r.trailer.Get("grpc-retry-pushback-ms"), []string{pushback}) {
			t.Errorf("got the wait %v and the trailer %v", wait, r.trailer)
		}
		if got := r.fields("ratelimit"); len(got) != 1 || !strings.HasPrefix(got[0], `"tokens";r=0;t=`) {
			t.Errorf("got the fields %q", got)
		}
		for _, key := range []string{"cache-control", "retry-after", "www-authenticate"} {
			if got := r.fields(key); got != nil {
				t.Errorf("got %s %q", key, got)
			}
		}
		if strings.Contains(fmt.Sprint(r), "internal-7") {
			t.Errorf("the name of a rule with a label is sent: %v", r)
		}
	})
}

// A denial for ever has no wait, and a negative pushback; a denial by places has neither.
func TestAnswers_NoWait(t *testing.T) {
	each(t, func(t *testing.T, call caller) {
		r := call(t.Context(), setup{limiter: limits(core.SlidingLog("calls", core.Blocked))}.start(t))
		retry, quota := r.details()
		if r.code() != codes.ResourceExhausted || retry != nil || quota == nil || !slices.Equal(r.trailer.Get("grpc-retry-pushback-ms"), []string{"-1"}) {
			t.Errorf("blocked: got %v, %v, %v", r, retry, quota)
		}
		l := limits(core.InFlight("calls", 1))
		held := must[*core.Reservation](t)(l.Reserve(t.Context(), "constant:k", 1))
		defer func() { _ = held.Release(context.Background()) }()
		r = call(t.Context(), setup{limiter: l}.start(t))
		retry, quota = r.details()
		if r.code() != codes.ResourceExhausted || retry != nil || quota == nil || r.trailer.Get("grpc-retry-pushback-ms") != nil {
			t.Errorf("places: got %v, %v, %v", r, retry, quota)
		}
		r = call(t.Context(), setup{limiter: l, opts: []gate.Option{gate.Jitter(time.Second)}}.start(t))
		if retry, _ = r.details(); retry.GetRetryDelay().AsDuration() != time.Second || !slices.Equal(r.trailer.Get("grpc-retry-pushback-ms"), []string{"1000"}) {
			t.Errorf("places with jitter: got %v, %v", r, retry)
		}
	})
}

// The codes of calls without a key and without a decision, which contain no text of an error.
func TestCodes(t *testing.T) {
	fails := func(err error) *core.Limiter {
		return core.Must(core.New(new(storetest.Fake).Set(storetest.Fail(err)), core.SlidingLog("calls", core.PerHour(5))))
	}
	outage := fmt.Errorf("%w: secret", core.ErrUnavailable)
	quiet := func(status int) gate.Option {
		return gate.OnError(func(_ *http.Request, _ error, own int) int { return max(own, status) })
	}
	key := func(err error) keyfunc.Func {
		return func(context.Context, *http.Request) (string, error) { return "", err }
	}
	denied := func(status int) gate.Option { return gate.DeniedStatus(func(core.Decision) int { return status }) }
	blocked := limits(core.SlidingLog("calls", core.Blocked))
	for _, c := range []struct {
		name string
		s    setup
		want codes.Code
	}{
		{"outage", setup{limiter: fails(outage)}, codes.OK},
		{"outage, FailClosed", setup{limiter: fails(outage), opts: []gate.Option{gate.FailClosed()}}, codes.Unavailable},
		{"fail-closed rule", setup{limiter: fails(errors.Join(outage, core.ErrFailClosed))}, codes.Unavailable},
		{"no key", setup{limiter: limits(core.InFlight("calls", 1)), key: key(keyfunc.ErrNoKey)}, codes.InvalidArgument},
		{"no token", setup{limiter: limits(core.InFlight("calls", 1)), key: key(keyfunc.ErrNoToken)}, codes.Unauthenticated},
		{"empty key", setup{limiter: limits(core.InFlight("calls", 1)), key: key(nil)}, codes.InvalidArgument},
		{"fault", setup{limiter: limits(core.InFlight("calls", 1)), key: key(errors.New("secret"))}, codes.Internal},
		{"not limited", setup{limiter: limits(core.SlidingLog("calls", core.Blocked)), key: key(keyfunc.ErrNotLimited)}, codes.OK},
		{"OnError 418", setup{limiter: limits(core.InFlight("calls", 1)), key: key(keyfunc.ErrNoKey), opts: []gate.Option{quiet(418)}}, codes.InvalidArgument},
		{"OnError 599", setup{limiter: limits(core.InFlight("calls", 1)), key: key(keyfunc.ErrNoKey), opts: []gate.Option{quiet(599)}}, codes.Internal},
		{"DeniedStatus 403", setup{limiter: blocked, opts: []gate.Option{denied(403)}}, codes.PermissionDenied},
		{"DeniedStatus 404", setup{limiter: blocked, opts: []gate.Option{denied(404)}}, codes.NotFound},
		{"DeniedStatus 409", setup{limiter: blocked, opts: []gate.Option{denied(409)}}, codes.Aborted},
		{"DeniedStatus 413", setup{limiter: blocked, opts: []gate.Option{denied(413)}}, codes.ResourceExhausted},
		{"DeniedStatus 499", setup{limiter: blocked, opts: []gate.Option{denied(499)}}, codes.Canceled},
		{"DeniedStatus 501", setup{limiter: blocked, opts: []gate.Option{denied(501)}}, codes.Unimplemented},
		{"DeniedStatus 504", setup{limiter: blocked, opts: []gate.Option{denied(504)}}, codes.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, call caller) {
				logged(t, func() {
					r := call(t.Context(), c.s.start(t))
					if r.code() != c.want || strings.Contains(fmt.Sprint(r), "secret") {
						t.Errorf("got %v, want %v", r.err, c.want)
					}
				})
			})
		})
	}
}

// A retry policy waits for the pushback, also behind a method that fails in its handler: the fields of weir are in the
// only frame of the answer. A blocked client does not try again.
func TestRetryPolicy(t *testing.T) {
	const policy = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.01s", "maxBackoff": "0.01s",
		"backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]}}]}`
	for _, c := range []struct {
		name     string
		rule     core.Rule
		handler  error
		code     codes.Code
		attempts int64
		atLeast  time.Duration
	}{
		{"a wait", core.TokenBucket("calls", core.PerSecond(2).WithBurst(1)), nil, codes.OK, 2, 400 * time.Millisecond},
		{"blocked", core.TokenBucket("calls", core.Blocked), nil, codes.ResourceExhausted, 1, 0},
		{"the handler fails", core.TokenBucket("calls", core.PerSecond(100)), status.Error(codes.Unavailable, "full"), codes.Unavailable, 3, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n attempts
			conn := setup{
				limiter: limits(c.rule),
				ofUnary: func(context.Context) error { return c.handler },
				dial:    []grpc.DialOption{grpc.WithDefaultServiceConfig(policy), grpc.WithStatsHandler(&n)},
			}.start(t)
			if c.code == codes.OK {
				verbs["unary"](t.Context(), conn)
			}
			n.n.Store(0)
			begun := time.Now()
			r := verbs["unary"](t.Context(), conn)
			if took := time.Since(begun); r.code() != c.code || n.n.Load() != c.attempts || took < c.atLeast {
				t.Errorf("got %v after %d attempts and %v, want %v after %d and at least %v", r.err, n.n.Load(), took, c.code, c.attempts, c.atLeast)
			}
		})
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

// A place is taken while a call runs, and free after its handler, a panic or a cancellation.
func TestPlaces(t *testing.T) {
	each(t, func(t *testing.T, call caller) {
		for name, end := range map[string]func(ctx context.Context) error{
			"success":      func(context.Context) error { return nil },
			"error":        func(context.Context) error { return errors.New("not found") },
			"panic":        func(context.Context) error { panic("a fault") },
			"cancellation": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		} {
			t.Run(name, func(t *testing.T) {
				l := limits(core.InFlight("running", 1))
				open, next := make(chan struct{}), make(chan struct{})
				handler := func(ctx context.Context) error {
					open <- struct{}{}
					<-next
					return end(ctx)
				}
				conn := setup{limiter: l, ofUnary: handler, chat: func(s grpc.ServerStream) error { return handler(s.Context()) }}.start(t)
				for range 2 {
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan result, 1)
					go func() { ended <- call(ctx, conn) }()
					<-open
					if r := call(t.Context(), conn); r.code() != codes.ResourceExhausted {
						t.Errorf("a second call: got %v", r.err)
					}
					if next <- struct{}{}; name == "cancellation" {
						cancel()
					}
					<-ended
					cancel()
					until(t, func() bool {
						d := must[core.Decision](t)(l.Peek(t.Context(), "constant:k"))
						return d.Allowed
					})
				}
			})
		}
	})
}

// until waits for a condition.
func until(t *testing.T, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	end := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-ticker.C:
		case <-end:
			t.Fatal("the condition is not met after 10 s")
		}
	}
}

// Only the calls within the limit are admitted, if 64 run at the same time.
func TestConcurrency(t *testing.T) {
	each(t, func(t *testing.T, call caller) {
		conn := setup{limiter: limits(core.SlidingLog("calls", core.PerHour(20)))}.start(t)
		var admitted, denied atomic.Int64
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				switch call(context.Background(), conn, "x-user", "ann", "authorization", "Bearer x").code() {
				case codes.OK:
					admitted.Add(1)
				case codes.ResourceExhausted:
					denied.Add(1)
				}
			})
		}
		if wg.Wait(); admitted.Load() != 20 || denied.Load() != 44 {
			t.Errorf("admitted %d and denied %d calls of 64, want 20 and 44", admitted.Load(), denied.Load())
		}
	})
}

// Two interceptors send one set of fields, and the decisions of both reach the handler.
func TestNested(t *testing.T) {
	each(t, func(t *testing.T, call caller) {
		outer, key := limits(core.SlidingLog("outer", core.PerMinute(10))), keyfunc.Constant("k")
		var seen int
		conn := setup{
			limiter: limits(core.SlidingLog("inner", core.PerMinute(1))),
			server:  []grpc.ServerOption{grpc.UnaryInterceptor(grpclimit.Unary(outer, key)), grpc.StreamInterceptor(grpclimit.Stream(outer, key))},
			ofUnary: func(ctx context.Context) error { seen = len(gate.DecisionsFrom(ctx)); return nil },
			chat:    func(s grpc.ServerStream) error { seen = len(gate.DecisionsFrom(s.Context())); return echo(s) },
		}.start(t)
		for _, want := range []string{`"outer";r=9;t=60, "inner";r=0;t=60`, `"outer";r=8;t=60, "inner";r=0;t=60`} {
			if r := call(t.Context(), conn); seen != 2 || !slices.Equal(r.fields("ratelimit"), []string{want}) {
				t.Errorf("got %d decisions and the fields %q, want 2 and %s", seen, r.fields("ratelimit"), want)
			}
		}
	})
}

// A handler that has sent its header, or fails, does not lose the fields.
func TestFields_AfterHeader(t *testing.T) {
	l := limits(core.SlidingLog("calls", core.PerMinute(10)))
	conn := setup{
		limiter: l,
		ofUnary: func(ctx context.Context) error { return grpc.SendHeader(ctx, metadata.Pairs("own", "1")) },
		chat:    func(s grpc.ServerStream) error { return s.SendHeader(metadata.Pairs("own", "1")) },
	}.start(t)
	each(t, func(t *testing.T, call caller) {
		r := result{}
		if r = verbs["unary"](t.Context(), conn); r.err != nil || len(r.fields("ratelimit")) != 1 || r.header.Get("own") == nil {
			t.Errorf("got %v", r)
		}
	})
	r := openStream(t.Context(), conn, streamMethod, 0)
	if r.err != nil || len(r.header.Get("ratelimit")) != 1 || r.header.Get("own") == nil {
		t.Errorf("got %v", r)
	}
}

// Construction panics, with the function.
func TestPanics(t *testing.T) {
	l, key := limits(core.SlidingLog("calls", core.PerHour(3))), keyfunc.RemoteIP()
	body := gate.CostOfBody(10, func(context.Context, *http.Request, []byte) (int, error) { return 1, nil })
	for want, f := range map[string]func(){
		"grpclimit: New: limiter is nil":      func() { grpclimit.Unary(nil, key) },
		"grpclimit: New: key function is nil": func() { grpclimit.Stream(l, nil) },
		"grpclimit: New: option 0 is nil":     func() { grpclimit.Stream(l, key, nil) },
		"grpclimit: New: nethttplimit.OnDenied is an option for nethttplimit.New only": func() {
			grpclimit.Unary(l, key, nethttplimit.OnDenied(func(http.ResponseWriter, *http.Request, core.Decision) {}))
		},
		"grpclimit: Unary: gate.CostOfBody reads the body of a request, which a call does not have":  func() { grpclimit.Unary(l, key, body) },
		"grpclimit: Stream: gate.CostOfBody reads the body of a request, which a call does not have": func() { grpclimit.Stream(l, key, gate.And(l, keyfunc.Constant("k"), body)) },
		"grpclimit: Unary: Messages is an option for Stream only":                                    func() { grpclimit.Unary(l, key, gate.Options(grpclimit.Messages(l))) },
		"grpclimit: Messages: limiter is nil":                                                        func() { grpclimit.Messages(nil) },
		"grpclimit: Messages: a message does not free the place of the rule running":                 func() { grpclimit.Messages(limits(core.InFlight("running", 1))) },
		"grpclimit: New: gate.And: the limiters are on different stores, which cannot decide together": func() {
			grpclimit.Unary(l, key, gate.And(core.Must(core.New(memstore.New(), core.SlidingLog("x", core.PerHour(1)))), key))
		},
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("got the panic %v, want %s", got, want)
				}
			}()
			f()
		}()
	}
}

// An interceptor that is called without a server decides, too.
func TestWithoutServer(t *testing.T) {
	i := grpclimit.Unary(limits(core.SlidingLog("calls", core.PerHour(1))), keyfunc.Constant("k"))
	for _, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
		_, err := i(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: unaryMethod}, func(context.Context, any) (any, error) { return nil, nil })
		if status.Code(err) != want {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}
