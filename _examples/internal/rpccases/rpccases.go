// Package rpccases has the cases of the examples grpc and connect, which limit the same calls.
package rpccases

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/examples/internal/demotest"
)

// User is the metadata with the key of a call, if a Service has Metadata, and Plan that with the plan.
const (
	User = "x-user"
	Plan = "x-plan"
)

// A Service is a server to start: the health service, whose methods run Handler.
type Service struct {
	Limiter  *core.Limiter
	Metadata bool // the key is the metadata User, and else the address
	Handler  func(ctx context.Context) error
}

// An Example is the interceptors of an example.
type Example struct {
	// Call calls an interceptor with a handler, without a server.
	Call map[string]func(ctx context.Context, l *core.Limiter, key func(context.Context) (string, error), handler func() error) error
	// Code returns the code of an error of Call, which gRPC and Connect have in common; 0 is OK.
	Code func(error) connect.Code
	// NoKey is an error of a key function.
	NoKey error
	// Serve serves s on the listener, recovers from panics of s.Handler, and returns a function that stops it. The
	// plan of a call is the metadata Plan, which stands for a verified one.
	Serve func(l net.Listener, s Service) (stop func())
	// Protocols are those of the server, as package connect calls them.
	Protocols []string
}

// Run runs all cases.
func Run(t *testing.T, e Example) {
	t.Run("errors", e.errors)
	t.Run("in flight", e.inFlight)
	t.Run("handler outlives call", e.outlives)
	t.Run("delay", e.delay)
	t.Run("concurrent", e.concurrent)
	t.Run("calls of the store", e.storeCalls)
	for _, protocol := range e.Protocols {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s stream=%v", protocol, stream), func(t *testing.T) {
				w := wire{e, protocol, stream}
				t.Run("denied", w.denied)
				t.Run("keys", w.keys)
				t.Run("plans", w.plans)
				t.Run("outage", w.outage)
				t.Run("open calls", w.openCalls)
			})
		}
	}
}

func ann(context.Context) (string, error) { return "user:ann", nil }

func succeed() error { return nil }

// errors checks that only an outage of the store admits calls without a limit, and that clients do not get the
// text of an error.
func (e Example) errors(t *testing.T) {
	const secret = "redis-7.internal"
	failing := func(err error) *core.Limiter {
		return core.Must(core.New(new(storetest.Fake).Set(storetest.Fail(err)), core.SlidingLog("calls", core.PerMinute(2))))
	}
	working := core.Must(core.New(memstore.New(), core.SlidingLog("calls", core.PerMinute(1000))))
	other := core.Must(core.New(memstore.New(), core.SlidingLog("calls", core.PerMinute(2))))
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	outage := fmt.Errorf("%w: dial %s", core.ErrUnavailable, secret)
	choose := func(l *core.Limiter, err error) *core.Limiter {
		return working.Choose(func(context.Context, string) (*core.Limiter, error) { return l, err })
	}
	for _, c := range []struct {
		name string
		ctx  context.Context
		l    *core.Limiter
		key  func(context.Context) (string, error)
		want connect.Code
	}{
		{"outage", context.Background(), failing(outage), ann, 0},
		{"outage, canceled call", canceled, failing(outage), ann, connect.CodeCanceled},
		{"fail-closed rule", context.Background(), failing(errors.Join(outage, core.ErrFailClosed)), ann, connect.CodeUnavailable},
		{"canceled call", canceled, working, ann, connect.CodeCanceled},
		{"deadline of the call", late, working, ann, connect.CodeDeadlineExceeded},
		{"empty key", context.Background(), working, func(context.Context) (string, error) { return "", nil }, connect.CodeInvalidArgument},
		{"key function", context.Background(), working, func(context.Context) (string, error) { return "", e.NoKey }, connect.CodeUnauthenticated},
		{"function of Choose", context.Background(), choose(nil, errors.New(secret)), ann, connect.CodeInternal},
		{"another limiter of Choose", context.Background(), choose(other, nil), ann, connect.CodeInternal},
		{"too many rules", context.Background(), failing(fmt.Errorf("%w: %s", driver.ErrInvalidCharge, secret)), ann, connect.CodeInternal},
		{"unknown error of a store", context.Background(), failing(errors.New(secret)), ann, 0},
	} {
		for verb, call := range e.Call {
			calls, want := 0, 0
			if c.want == 0 {
				want = 1
			}
			err := call(c.ctx, c.l, c.key, func() error { calls++; return nil })
			if e.Code(err) != c.want || calls != want {
				t.Errorf("%s %s: got %v and %d calls of the handler, want %v and %d", c.name, verb, err, calls, c.want, want)
			}
			if strings.Contains(fmt.Sprint(err), secret) {
				t.Errorf("%s %s: the client gets %v", c.name, verb, err)
			}
		}
	}
}

// inFlight checks that a place is taken while a call runs, and free when the handler has returned, also with an
// error or by a panic.
func (e Example) inFlight(t *testing.T) {
	for verb, call := range e.Call {
		for name, end := range map[string]func() error{
			"success": succeed,
			"error":   func() error { return errors.New("not found") },
			"panic":   func() error { panic("a fault of the handler") },
		} {
			l := core.Must(core.New(memstore.New(), core.InFlight("running", 1), core.SlidingLog("calls", core.PerMinute(100))))
			for range 3 {
				admitted := false
				func() {
					defer func() { _ = recover() }()
					_ = call(t.Context(), l, ann, func() error {
						admitted = true
						if err := call(t.Context(), l, ann, succeed); e.Code(err) != connect.CodeResourceExhausted {
							t.Errorf("%s %s: a second call at the same time: got %v, want RESOURCE_EXHAUSTED", verb, name, err)
						}
						return end()
					})
				}()
				if !admitted {
					t.Fatalf("%s %s: the call before has not freed its place", verb, name)
				}
			}
		}
	}
}

// outlives checks that a call whose client has gone keeps its place until its handler returns: otherwise a client
// could have any number of handlers run with short deadlines.
func (e Example) outlives(t *testing.T) {
	for _, call := range e.Call {
		synctest.Test(t, func(t *testing.T) {
			l := core.Must(core.New(memstore.New(), core.InFlight("running", 1)))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			go func() {
				_ = call(ctx, l, ann, func() error { time.Sleep(5 * time.Minute); return nil })
			}()
			time.Sleep(4 * time.Minute)
			if err := call(t.Context(), l, ann, succeed); e.Code(err) != connect.CodeResourceExhausted {
				t.Errorf("while the handler runs: got %v, want RESOURCE_EXHAUSTED", err)
			}
			time.Sleep(2 * time.Minute)
			if err := call(t.Context(), l, ann, succeed); err != nil {
				t.Errorf("after the handler: got %v", err)
			}
		})
	}
}

// delay checks that a leaky bucket delays calls, and that a call that ends during its delay does not run and is
// refunded.
func (e Example) delay(t *testing.T) {
	for _, call := range e.Call {
		synctest.Test(t, func(t *testing.T) {
			l := core.Must(core.New(memstore.New(), core.LeakyBucket("calls", core.PerMinute(1).WithBurst(2)), core.InFlight("running", 1)))
			begun := time.Now()
			demotest.Must(t, call(t.Context(), l, ann, succeed))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			calls := 0
			if err := call(ctx, l, ann, func() error { calls++; return nil }); e.Code(err) != connect.CodeDeadlineExceeded || calls != 0 {
				t.Errorf("got %v and %d calls of the handler, want DEADLINE_EXCEEDED and none", err, calls)
			}
			d, err := l.Peek(t.Context(), "user:ann")
			demotest.Must(t, err)
			if running, _ := d.StateOf("running"); running.Used() != 0 || !d.Allowed || d.Delay > time.Minute {
				t.Errorf("got %v after %v, want a refund", d, d.Delay)
			}
			demotest.Must(t, call(t.Context(), l, ann, succeed))
			if took := time.Since(begun); took < time.Minute-time.Millisecond || took > time.Minute+time.Millisecond {
				t.Errorf("two calls took %v, want a minute", took)
			}
		})
	}
}

// concurrent checks that of 64 calls at the same time, exactly as many are admitted as the limit has.
func (e Example) concurrent(t *testing.T) {
	for verb, call := range e.Call {
		l := core.Must(core.New(memstore.New(), core.SlidingLog("calls", core.PerHour(20))))
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				_ = call(context.Background(), l, ann, func() error { admitted.Add(1); return nil })
			})
		}
		wg.Wait()
		if admitted.Load() != 20 {
			t.Errorf("%s: admitted %d of 64 calls, want 20", verb, admitted.Load())
		}
	}
}

// storeCalls checks that a call asks the store once, and a second time only to free a place.
func (e Example) storeCalls(t *testing.T) {
	for verb, call := range e.Call {
		for want, rule := range map[int]core.Rule{
			1: core.SlidingLog("calls", core.PerMinute(10)),
			2: core.InFlight("calls", 10),
		} {
			fake := new(storetest.Fake)
			demotest.Must(t, call(t.Context(), core.Must(core.New(fake, rule)), ann, succeed))
			demotest.Until(t, "the place is free", func() bool { return fake.Calls() >= want })
			if fake.Calls() != want {
				t.Errorf("%s, %v: got %d calls of the store, want %d", verb, rule, fake.Calls(), want)
			}
		}
	}
}

// A wire calls a server with one protocol.
type wire struct {
	Example
	protocol string
	stream   bool
}

// start starts a server, and returns a function that calls it with header fields of the form "name: value".
func (w wire) start(t *testing.T, s Service) func(ctx context.Context, fields ...string) error {
	t.Helper()
	if s.Handler == nil {
		s.Handler = func(context.Context) error { return nil }
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	demotest.Must(t, err)
	t.Cleanup(w.Serve(listener, s))
	transport := &http.Transport{Protocols: new(http.Protocols)}
	t.Cleanup(transport.CloseIdleConnections)
	var opts []connect.ClientOption
	transport.Protocols.SetHTTP1(w.protocol != connect.ProtocolGRPC)
	transport.Protocols.SetUnencryptedHTTP2(w.protocol == connect.ProtocolGRPC)
	switch w.protocol {
	case connect.ProtocolGRPC:
		opts = append(opts, connect.WithGRPC())
	case connect.ProtocolGRPCWeb:
		opts = append(opts, connect.WithGRPCWeb())
	}
	method := grpc_health_v1.Health_Check_FullMethodName
	if w.stream {
		method = grpc_health_v1.Health_Watch_FullMethodName
	}
	client := connect.NewClient[grpc_health_v1.HealthCheckRequest, grpc_health_v1.HealthCheckResponse](
		&http.Client{Transport: transport}, "http://"+listener.Addr().String()+method, opts...)
	return func(ctx context.Context, fields ...string) error {
		req := connect.NewRequest(new(grpc_health_v1.HealthCheckRequest))
		for _, f := range fields {
			name, value, _ := strings.Cut(f, ": ")
			req.Header().Add(name, value)
		}
		if !w.stream {
			_, err := client.CallUnary(ctx, req)
			return err
		}
		stream, err := client.CallServerStream(ctx, req)
		if err != nil {
			return err
		}
		for stream.Receive() {
		}
		err = stream.Err()
		_ = stream.Close()
		return err
	}
}

// codeOf returns the code of an error of a client; 0 is OK.
func codeOf(err error) connect.Code {
	if err == nil {
		return 0
	}
	return connect.CodeOf(err)
}

// denied checks the status, the details and the metadata of a denial.
func (w wire) denied(t *testing.T) {
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
		t.Run(c.name, func(t *testing.T) {
			free, shadow := core.SlidingLog("free", core.PerMinute(1000)), core.SlidingLog("shadow", core.Blocked).Shadow()
			call := w.start(t, Service{Limiter: core.Must(core.New(memstore.New(), free, c.rule, shadow))})
			for range min(c.admitted, 5) {
				demotest.Must(t, call(t.Context()))
			}
			if c.admitted != math.MaxInt {
				wantDenied(t, call(t.Context()), c.rule, c.retries, w.protocol != connect.ProtocolConnect, w.connects())
			}
		})
	}
}

// connects reports whether the server is that of package connect.
func (w wire) connects() bool { return len(w.Protocols) > 1 }

// wantDenied checks a denial. pushes and retryAfter say whether the wait is in the pushback of gRPC and in Retry-After.
func wantDenied(t *testing.T, err error, rule core.Rule, retries, pushes, retryAfter bool) {
	t.Helper()
	var e *connect.Error
	if !errors.As(err, &e) || e.Code() != connect.CodeResourceExhausted {
		t.Fatalf("got %v, want RESOURCE_EXHAUSTED", err)
	}
	retry, quota := details(t, e)
	if quota == nil || len(quota.Violations) != 1 || quota.Violations[0].QuotaId != "calls" || quota.Violations[0].Description != rule.Limit().String() {
		t.Errorf("got the quota %v", quota)
	}
	pushback, seconds := []string{"-1"}, []string(nil)
	if retries {
		wait := retry.GetRetryDelay().AsDuration()
		if wait <= 0 {
			t.Fatalf("got the wait %v", wait)
		}
		if ms := int64((wait-1)/time.Millisecond) + 1; ms <= math.MaxInt32 {
			pushback[0] = strconv.FormatInt(ms, 10)
		}
		if retryAfter {
			seconds = []string{strconv.FormatInt(int64((wait-1)/time.Second)+1, 10)}
		}
	} else if retry != nil {
		t.Errorf("got the wait %v, want none", retry)
	}
	if !pushes {
		pushback = nil
	}
	if got := e.Meta().Values("Grpc-Retry-Pushback-Ms"); !slices.Equal(got, pushback) {
		t.Errorf("got the pushback %q, want %q", got, pushback)
	}
	if got := e.Meta().Values("Retry-After"); !slices.Equal(got, seconds) {
		t.Errorf("got Retry-After %q, want %q", got, seconds)
	}
}

func details(t *testing.T, e *connect.Error) (retry *errdetails.RetryInfo, quota *errdetails.QuotaFailure) {
	t.Helper()
	for _, detail := range e.Details() {
		value, err := detail.Value()
		demotest.Must(t, err)
		switch d := value.(type) {
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.QuotaFailure:
			quota = d
		}
	}
	return retry, quota
}

// keys checks that the values of metadata have limits of their own, and that a call without one value is rejected.
func (w wire) keys(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.SlidingLog("calls", core.PerHour(1))))
	call := w.start(t, Service{Limiter: l, Metadata: true})
	for _, c := range []struct {
		fields []string
		want   connect.Code
	}{
		{[]string{User + ": ann"}, 0},
		{[]string{User + ": ann"}, connect.CodeResourceExhausted},
		{[]string{User + ": bob"}, 0},
		{nil, connect.CodeInvalidArgument},
		{[]string{User + ": "}, connect.CodeInvalidArgument},
		{[]string{User + ": carol", User + ": dan"}, connect.CodeInvalidArgument},
		{[]string{User + ": " + strings.Repeat("x", 300)}, 0}, // keyfunc.Header has no longest value
	} {
		if err := call(t.Context(), c.fields...); codeOf(err) != c.want {
			t.Errorf("%.40q: got %v, want %v", c.fields, err, c.want)
		}
	}
	d, err := l.Peek(t.Context(), "header:"+User+":ann")
	demotest.Must(t, err)
	if d.Allowed {
		t.Error("the key differs from that of keyfunc.Header")
	}
}

// plans checks that the limits of a plan apply, and those without a plan if it is unknown.
func (w wire) plans(t *testing.T) {
	for plan, want := range map[string]int{"": 1, "pro": 3, "unknown": 1} {
		rule := core.SlidingLog("calls", core.PerHour(1)).Plan("pro", core.PerHour(3))
		call := w.start(t, Service{Limiter: core.Must(core.New(memstore.New(), rule))})
		admitted := 0
		for range 5 {
			if call(t.Context(), Plan+": "+plan) == nil {
				admitted++
			}
		}
		if admitted != want {
			t.Errorf("plan %q: admitted %d calls, want %d", plan, admitted, want)
		}
	}
}

// outage checks that calls are admitted during an outage of the store, unless a rule fails closed.
func (w wire) outage(t *testing.T) {
	for want, err := range map[connect.Code]error{
		0:                       core.ErrUnavailable,
		connect.CodeUnavailable: errors.Join(core.ErrUnavailable, core.ErrFailClosed),
	} {
		fake := new(storetest.Fake).Set(storetest.Fail(err))
		call := w.start(t, Service{Limiter: core.Must(core.New(fake, core.SlidingLog("calls", core.PerMinute(2))))})
		if err := call(t.Context()); codeOf(err) != want {
			t.Errorf("got %v, want the code %d", err, want)
		}
	}
}

// openCalls checks that an open call has a place, which is free when its client has gone, and after a panic. A
// denial names no wait, because the end of the open call is not known.
func (w wire) openCalls(t *testing.T) {
	open := make(chan struct{}, 1)
	var panics atomic.Bool
	call := w.start(t, Service{
		Limiter: core.Must(core.New(memstore.New(), core.InFlight("running", 1))),
		Handler: func(ctx context.Context) error {
			if panics.Load() {
				panic("a fault of the handler")
			}
			open <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		},
	})
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- call(ctx) }()
		<-open
		var e *connect.Error
		if err := call(t.Context()); !errors.As(err, &e) || e.Code() != connect.CodeResourceExhausted {
			t.Fatalf("a second call: got %v, want RESOURCE_EXHAUSTED", err)
		}
		retry, quota := details(t, e)
		if retry != nil || quota == nil || e.Meta().Get("Retry-After") != "" || e.Meta().Get("Grpc-Retry-Pushback-Ms") != "" {
			t.Errorf("got %v, %v and %v, want a quota without a wait", retry, quota, e.Meta())
		}
		cancel()
		if err := <-ended; codeOf(err) != connect.CodeCanceled {
			t.Errorf("got %v, want CANCELED", err)
		}
		panics.Store(true)
		for range 2 { // the second one needs the place of the first one
			demotest.Until(t, "the place is free", func() bool { return codeOf(call(t.Context())) == connect.CodeInternal })
		}
		panics.Store(false)
	}
}
