package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/keyfunc"
)

// Each option has the meaning that the table of the package gives.
func TestOptions(t *testing.T) {
	method := func(_ context.Context, r *http.Request) bool { return r.Header.Get("X-Free") == "1" }
	cost := gate.Cost(func(_ context.Context, r *http.Request) int { return len(r.Header["X-Cost"]) })
	three := func(rules ...core.Rule) *core.Limiter {
		return limits(append(rules, core.SlidingLog("calls", core.PerHour(3)).Plan("pro", core.PerHour(5)))...)
	}
	callers := gate.Caller(func(_ context.Context, r *http.Request) (key, plan string, err error) {
		return "user:" + r.Header.Get("X-User"), r.Header.Get("X-Plan"), nil
	})
	plan := func(_ context.Context, r *http.Request) (string, error) { return r.Header.Get("X-Plan"), nil }
	for _, c := range []struct {
		name string
		key  keyfunc.Func
		opts []gate.Option
		kv   []string
		want int // admitted of 7
	}{
		{"none", nil, nil, nil, 3},
		{"Skip", nil, []gate.Option{gate.Skip(method)}, []string{"x-free", "1"}, 7},
		{"Exempt", nil, []gate.Option{gate.Exempt(keyfunc.RemoteIP(), "127.0.0.1")}, nil, 7},
		{"Cost", nil, []gate.Option{cost}, []string{"x-cost", "1", "x-cost", "1"}, 1},
		{"Cost 0", nil, []gate.Option{cost}, nil, 7},
		{"Plan", nil, []gate.Option{gate.Plan(plan)}, []string{"x-plan", "pro"}, 5},
		{"Caller", callers, nil, []string{"x-plan", "pro", "x-user", "ann"}, 5},
		{"Options", nil, []gate.Option{gate.Options(gate.Skip(method))}, []string{"x-free", "1"}, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, call caller) {
				conn, admitted := setup{limiter: three(), key: c.key, opts: c.opts}.start(t), 0
				for range 7 {
					if call(t.Context(), conn, c.kv...).err == nil {
						admitted++
					}
				}
				if admitted != c.want {
					t.Errorf("admitted %d calls of 7, want %d", admitted, c.want)
				}
			})
		})
	}
}

func TestOptions_And(t *testing.T) {
	each(t, func(t *testing.T, call caller) {
		s := memory(t)
		l := s(core.SlidingLog("outer", core.PerHour(9)))
		and := gate.And(s(core.SlidingLog("user", core.PerHour(1))), keyfunc.Header("x-user"))
		conn := setup{limiter: l, opts: []gate.Option{and}}.start(t)
		for _, c := range []struct {
			user string
			want codes.Code
		}{{"ann", codes.OK}, {"ann", codes.ResourceExhausted}, {"bob", codes.OK}} {
			if r := call(t.Context(), conn, "x-user", c.user); r.code() != c.want {
				t.Errorf("%s: got %v, want %v", c.user, r.err, c.want)
			}
		}
	})
}

func TestOptions_Headers(t *testing.T) {
	each(t, func(t *testing.T, call caller) {
		for _, c := range []struct {
			opts []gate.Option
			want map[string][]string
		}{
			{[]gate.Option{gate.Headers()}, map[string][]string{"ratelimit": nil, "ratelimit-policy": nil, "x-ratelimit-limit": nil}},
			{[]gate.Option{gate.Headers(gate.XRateLimit)}, map[string][]string{"ratelimit": nil, "x-ratelimit-limit": {"9"}, "x-ratelimit-remaining": {"8"}}},
			{[]gate.Option{gate.ExposeHeaders()}, map[string][]string{"access-control-expose-headers": {"RateLimit, RateLimit-Policy, Retry-After"}}},
		} {
			conn := setup{limiter: limits(core.SlidingLog("calls", core.PerMinute(9))), opts: c.opts}.start(t)
			r := call(t.Context(), conn)
			for key, want := range c.want {
				if got := r.fields(key); !slices.Equal(got, want) {
					t.Errorf("%s: got %q, want %q", key, got, want)
				}
			}
		}
	})
}

// RefundIf gets the HTTP status of the code that the handler returns.
func TestOptions_RefundIf(t *testing.T) {
	for err, want := range map[error]int{
		nil:                                     200,
		status.Error(codes.NotFound, ""):        404,
		status.Error(codes.Aborted, ""):         409,
		status.Error(codes.AlreadyExists, ""):   409,
		status.Error(codes.OutOfRange, ""):      400,
		status.Error(codes.Canceled, ""):        499,
		status.Error(codes.DataLoss, ""):        500,
		status.Error(codes.Unimplemented, ""):   501,
		status.Error(codes.Unavailable, ""):     503,
		status.Error(codes.Code(1000), ""):      500,
		errors.New("unknown"):                   500,
		context.DeadlineExceeded:                504,
		fmt.Errorf("x: %w", context.Canceled):   499,
		status.Error(codes.Unauthenticated, ""): 401,
	} {
		each(t, func(t *testing.T, call caller) {
			var got []int
			l := limits(core.SlidingLog("calls", core.PerHour(9)))
			conn := setup{
				limiter: l,
				opts:    []gate.Option{gate.RefundIf(func(status int) bool { got = append(got, status); return true })},
				ofUnary: func(context.Context) error { return err },
				chat:    func(grpc.ServerStream) error { return err },
			}.start(t)
			call(t.Context(), conn)
			d := must[core.Decision](t)(l.Peek(t.Context(), "constant:k"))
			if !slices.Equal(got, []int{want}) || d.State(0).Used() != 0 {
				t.Errorf("%v: got %v and %d used, want %d and a refund", err, got, d.State(0).Used(), want)
			}
		})
	}
	var got []int
	conn := setup{
		limiter: limits(core.SlidingLog("calls", core.PerHour(9))),
		opts:    []gate.Option{gate.RefundIf(func(status int) bool { got = append(got, status); return true })},
		ofUnary: func(context.Context) error { panic("a fault") },
	}.start(t)
	if r := verbs["unary"](t.Context(), conn); r.code() != codes.Internal || !slices.Equal(got, []int{500}) {
		t.Errorf("panic: got %v and %v", r.err, got)
	}
}

// OnDecision gets each call once, and the functions of package gate work in handlers.
func TestOptions_OnDecision(t *testing.T) {
	each(t, func(t *testing.T, call caller) {
		var events []string
		l := limits(core.SlidingLog("calls", core.PerHour(1)))
		handler := func(ctx context.Context) error {
			key, _ := gate.Key(ctx, l)
			if d, ok := gate.FromContext(ctx); !ok || !d.Allowed || key != "constant:k" {
				return errors.New("no decision")
			}
			return nil
		}
		conn := setup{limiter: l, opts: []gate.Option{gate.OnDecision(func(_ context.Context, e gate.Event) {
			events = append(events, fmt.Sprint(e.Outcome, e.Status))
		})}, ofUnary: handler, chat: func(s grpc.ServerStream) error { return handler(s.Context()) }}.start(t)
		if r := call(t.Context(), conn); r.err != nil {
			t.Error(r.err)
		}
		if call(t.Context(), conn); !slices.Equal(events, []string{"admitted 0", "denied 429"}) {
			t.Errorf("got %q", events)
		}
	})
}

// A leaky bucket delays a call, and MaxDelay bounds the delay.
func TestOptions_MaxDelay(t *testing.T) {
	each(t, func(t *testing.T, call caller) {
		conn := setup{limiter: limits(core.LeakyBucket("calls", core.PerSecond(20).WithBurst(10))), opts: []gate.Option{gate.MaxDelay(60 * time.Millisecond)}}.start(t)
		begun, admitted := time.Now(), 0
		for range 2 {
			if call(t.Context(), conn).err == nil {
				admitted++
			}
		}
		if took := time.Since(begun); admitted != 2 || took < 50*time.Millisecond {
			t.Errorf("admitted %d calls in %v, want 2 in at least 50 ms", admitted, took)
		}
	})
	l := limits(core.LeakyBucket("calls", core.PerMinute(1).WithBurst(2)))
	must[core.Decision](t)(l.Allow(t.Context(), "constant:k"))
	each(t, func(t *testing.T, call caller) {
		if r := call(t.Context(), setup{limiter: l}.start(t)); r.code() != codes.ResourceExhausted {
			t.Errorf("got %v, want RESOURCE_EXHAUSTED", r.err)
		}
	})
}

// A call whose client has gone, or whose deadline has passed, has the code of that.
func TestEnded(t *testing.T) {
	each(t, func(t *testing.T, call caller) {
		conn := setup{limiter: limits(core.LeakyBucket("calls", core.PerMinute(10).WithBurst(2))), ofUnary: one}.start(t)
		if r := call(t.Context(), conn); r.err != nil {
			t.Fatal(r.err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if r := call(ctx, conn); r.code() != codes.DeadlineExceeded {
			t.Errorf("got %v, want DEADLINE_EXCEEDED", r.err)
		}
	})
}
