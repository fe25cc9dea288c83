package connectlimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/weir-go/weir/connectlimit"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/adapter"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

var answers = connectlimit.Answers(connect.NewErrorWriter())

// around returns h behind a gate with Answers.
func around(h http.Handler, l *core.Limiter, key keyfunc.Func, opts ...gate.Option) http.Handler {
	return nethttplimit.New(l, key, append(opts, answers)...)(h)
}

// A denial has its code, details and header fields in every protocol, and no name of a rule that has a label.
func TestDenied(t *testing.T) {
	each(t, func(t *testing.T, p protocol, method string) {
		l := testkit.Limiter(t, frozen(),
			core.NewRule(core.Spec{Name: "secret.tokens", Label: "tokens", Unit: "tokens", Algorithm: core.SlidingLog("r", core.PerDay(1)).Spec().Algorithm, Limit: core.PerMinute(2)}),
			core.TokenBucket("burst", core.PerHour(2).WithBurst(2)),
			core.SlidingLog("roomy", core.PerMinute(1000)),
			core.SlidingLog("secret.shadow", core.Blocked).Shadow())
		c := start(t, p, around(service(succeed), l, everyone))
		for range 2 {
			testkit.Must(t, c.call(t.Context(), method, 1, "hello"))
		}
		err := c.call(t.Context(), method, 1, "hello")
		e, retry, quota := details(t, err, connect.CodeResourceExhausted)
		if want := `Policy "burst" allows 2 requests per 3600 s. Retry in 1800 s.`; e.Message() != want {
			t.Errorf("got the message %q, want %q", e.Message(), want)
		}
		if got := retry.GetRetryDelay().AsDuration(); got != 30*time.Minute {
			t.Errorf("got the wait %v, want 30m", got)
		}
		var violations []string
		for _, v := range quota.GetViolations() {
			violations = append(violations, fmt.Sprint(v.QuotaId, ", ", v.QuotaMetric, ", ", v.QuotaValue, ", ", v.Description, v.Subject))
		}
		if got, want := strings.Join(violations, "; "), "tokens, tokens, 2, 2/m; burst, requests, 2, 2/h burst 2"; got != want {
			t.Errorf("got the violations %q, want %q", got, want)
		}
		pushback := ""
		if p.grpc() {
			pushback = "1800000"
		}
		for name, want := range map[string]string{
			"RateLimit-Policy":       `"tokens";q=2;w=60, "burst";q=2;w=3600, "roomy";q=1000;w=60`,
			"RateLimit":              `"tokens";r=0;t=60, "burst";r=0;t=1800, "roomy";r=998;t=60`,
			"Retry-After":            "1800",
			"Grpc-Retry-Pushback-Ms": pushback,
		} {
			if got := strings.Join(e.Meta().Values(name), " and "); got != want {
				t.Errorf("got %s %q, want %q", name, got, want)
			}
		}
		if all := fmt.Sprint(e, e.Meta(), quota, retry); strings.Contains(all, "secret") {
			t.Errorf("the name of a rule was sent: %s", all)
		}
	})
}

// RetryInfo has the exact wait, and is absent if there is none.
func TestDenied_Wait(t *testing.T) {
	places := testkit.Limiter(t, memstore.New(), core.InFlight("places", 1))
	held := testkit.Reserve(t, places, "everyone", 1)
	defer func() { _ = held.Release(context.Background()) }() // places of garbage are free
	used := func(rule core.Rule) *core.Limiter {
		l := testkit.Limiter(t, frozen(), rule)
		testkit.Admit(t, l, "everyone", 1)
		return l
	}
	thirty := gate.Jitter(30 * time.Second)
	for name, c := range map[string]struct {
		l        *core.Limiter
		opts     []gate.Option
		min, max time.Duration // of the wait
		pushback string        // empty if it follows from the wait
	}{
		"fraction of a second":    {l: used(core.SlidingLog("calls", core.Per(1, 1500*time.Millisecond))), min: 1500 * time.Millisecond, max: 1500 * time.Millisecond},
		"fraction, jitter":        {l: used(core.SlidingLog("calls", core.Per(1, 1500*time.Millisecond))), opts: []gate.Option{thirty}, min: 2500 * time.Millisecond, max: 31500 * time.Millisecond},
		"below a millisecond":     {l: used(core.SlidingLog("calls", core.Per(1, 100*time.Microsecond))), min: 100 * time.Microsecond, max: 100 * time.Microsecond},
		"year":                    {l: used(core.SlidingLog("calls", core.Per(1, 365*24*time.Hour))), min: 365 * 24 * time.Hour, max: 365 * 24 * time.Hour, pushback: "-1"},
		"never":                   {l: testkit.Limiter(t, frozen(), core.SlidingLog("calls", core.Blocked)), pushback: "-1"},
		"never, jitter":           {l: testkit.Limiter(t, frozen(), core.SlidingLog("calls", core.Blocked)), opts: []gate.Option{thirty}, pushback: "-1"},
		"cost above the capacity": {l: testkit.Limiter(t, frozen(), core.SlidingLog("calls", core.PerMinute(1))), opts: []gate.Option{gate.Cost(func(context.Context, *http.Request) int { return 2 })}, pushback: "-1"},
		"places":                  {l: places, pushback: "none"},
		"places, jitter":          {l: places, opts: []gate.Option{thirty}, min: time.Second, max: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			call := start(t, protocols[4], around(service(succeed), c.l, everyone, c.opts...))
			e, retry, quota := details(t, call.call(t.Context(), unary, 1, ""), connect.CodeResourceExhausted)
			wait := retry.GetRetryDelay().AsDuration()
			if (retry != nil) != (c.max > 0) || wait < c.min || wait > c.max || len(quota.GetViolations()) != 1 {
				t.Errorf("got the wait %v and %v, want %v to %v and one violation", retry, quota, c.min, c.max)
			}
			pushback := c.pushback
			switch pushback {
			case "":
				pushback = strconv.FormatInt(int64((wait+time.Millisecond-1)/time.Millisecond), 10)
			case "none":
				pushback = ""
			}
			if got := e.Meta().Get("Grpc-Retry-Pushback-Ms"); got != pushback {
				t.Errorf("got the pushback %q, want %q", got, pushback)
			}
			seconds := ""
			if c.max > 0 {
				seconds = strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10)
			}
			if got := e.Meta().Get("Retry-After"); got != seconds {
				t.Errorf("got Retry-After %q, want %q", got, seconds)
			}
		})
	}
}

// The status that the gate chooses determines the code, in every protocol.
func TestCodes(t *testing.T) {
	empty := testkit.Limiter(t, frozen(), core.SlidingLog("calls", core.Blocked))
	broken := testkit.Limiter(t, new(storetest.Fake).Set(storetest.Fail(core.ErrUnavailable)), core.SlidingLog("calls", core.PerMinute(2)))
	keyless := func(err error) keyfunc.Func {
		return func(context.Context, *http.Request) (string, error) { return "", err }
	}
	deny := func(status int) []gate.Option {
		return []gate.Option{gate.DeniedStatus(func(core.Decision) int { return status })}
	}
	reject := func(status int) []gate.Option {
		return []gate.Option{gate.OnError(func(*http.Request, error, int) int { return status })}
	}
	for name, c := range map[string]struct {
		l    *core.Limiter
		key  keyfunc.Func
		opts []gate.Option
		want connect.Code
	}{
		"denied":                {empty, everyone, nil, connect.CodeResourceExhausted},
		"denied, 403":           {empty, everyone, deny(403), connect.CodePermissionDenied},
		"denied, 413":           {empty, everyone, deny(413), connect.CodeResourceExhausted},
		"denied, 503":           {empty, everyone, deny(503), connect.CodeUnavailable},
		"denied, 420":           {empty, everyone, deny(420), connect.CodeResourceExhausted},
		"denied, no fields":     {empty, everyone, []gate.Option{gate.Headers()}, connect.CodeResourceExhausted},
		"no key":                {empty, keyless(keyfunc.ErrNoKey), nil, connect.CodeInvalidArgument},
		"no token":              {empty, keyless(keyfunc.ErrNoToken), nil, connect.CodeUnauthenticated},
		"fault":                 {empty, keyless(errors.New("secret")), []gate.Option{quiet}, connect.CodeInternal},
		"no key, 404":           {empty, keyless(keyfunc.ErrNoKey), reject(404), connect.CodeNotFound},
		"no key, 422":           {empty, keyless(keyfunc.ErrNoKey), reject(422), connect.CodeFailedPrecondition},
		"no key, 501":           {empty, keyless(keyfunc.ErrNoKey), reject(501), connect.CodeUnimplemented},
		"no key, 504":           {empty, keyless(keyfunc.ErrNoKey), reject(504), connect.CodeDeadlineExceeded},
		"no key, 599":           {empty, keyless(keyfunc.ErrNoKey), reject(599), connect.CodeInternal},
		"no key, let through":   {empty, keyless(keyfunc.ErrNoKey), reject(0), 0},
		"skipped":               {empty, everyone, []gate.Option{gate.Skip(func(context.Context, *http.Request) bool { return true })}, 0},
		"undecided":             {broken, everyone, []gate.Option{quiet}, 0},
		"undecided, FailClosed": {broken, everyone, []gate.Option{quiet, gate.FailClosed()}, connect.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, p protocol, method string) {
				var handled atomic.Int64
				h := around(service(func(context.Context) error { handled.Add(1); return nil }), c.l, c.key, c.opts...)
				err := start(t, p, h).call(t.Context(), method, 1, "")
				if codeOf(err) != c.want || handled.Load() != 0 != (c.want == 0) {
					t.Fatalf("got %v and %d calls of the handler, want %v", err, handled.Load(), c.want)
				}
				if strings.Contains(fmt.Sprint(err), "secret") {
					t.Errorf("the client gets the text of an error: %v", err)
				}
				if c.want == connect.CodeUnavailable && strings.HasPrefix(name, "undecided") {
					if _, retry, quota := details(t, err, c.want); retry.GetRetryDelay().AsDuration() != time.Second || quota != nil {
						t.Errorf("got %v and %v, want a wait of 1 s and no quota", retry, quota)
					}
				}
			})
		})
	}
}

// A call that has ended has the code of its end.
func TestCodes_Ended(t *testing.T) {
	for want, end := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"canceled":          context.WithCancel,
		"deadline_exceeded": func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, 0) },
	} {
		ctx, cancel := end(t.Context())
		cancel()
		fake := new(storetest.Fake).Set(storetest.Fail(ctx.Err()))
		h := around(service(succeed), testkit.Limiter(t, fake, core.SlidingLog("calls", core.PerMinute(2))), everyone)
		w := serve(h, request(unary, "application/json", `"hello"`).WithContext(ctx))
		if !strings.Contains(w.Body.String(), `"code":"`+want+`"`) {
			t.Errorf("got %s, want %s", w.Body, want)
		}
	}
}

// request returns a call of method whose body is body.
func request(method, contentType, body string) *http.Request {
	r := httptest.NewRequest("POST", method, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	return r
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A plain HTTP client gets the response that it gets without the option. It calls none of the protocols.
func TestPlainHTTP(t *testing.T) {
	l := testkit.Limiter(t, frozen(), core.SlidingLog("calls", core.PerMinute(1)))
	testkit.Admit(t, l, "everyone", 1)
	forbidden := gate.DeniedStatus(func(core.Decision) int { return 403 })
	for name, r := range map[string]func() *http.Request{
		"GET":        func() *http.Request { return httptest.NewRequest("GET", "/health", nil) },
		"HEAD":       func() *http.Request { return httptest.NewRequest("HEAD", "/health", nil) },
		"form":       func() *http.Request { return request("/form", "application/x-www-form-urlencoded", "a=b") },
		"JSON":       func() *http.Request { return request(unary, "application/json", `"hello"`) },
		"PUT":        func() *http.Request { return httptest.NewRequest("PUT", unary, nil) },
		"other gRPC": func() *http.Request { r := request(unary, "application/grpc", ""); r.Method = "PUT"; return r },
	} {
		for _, opts := range [][]gate.Option{nil, {forbidden}} {
			want := serve(nethttplimit.New(l, everyone, opts...)(http.NotFoundHandler()), r())
			got := serve(limit(l, everyone, opts)(http.NotFoundHandler()), r())
			if got.Code != want.Code || fmt.Sprint(got.Header()) != fmt.Sprint(want.Header()) || got.Body.String() != want.Body.String() || got.Code < 400 {
				t.Errorf("%s: got %d %v %s, want %d %v %s", name, got.Code, got.Header(), got.Body, want.Code, want.Header(), want.Body)
			}
		}
	}
}

// A curl without the header fields of the Connect protocol gets an error with the status of the code.
func TestConnect_Curl(t *testing.T) {
	l := testkit.Limiter(t, frozen(), core.SlidingLog("calls", core.PerMinute(1)))
	h := around(service(succeed), l, everyone)
	if w := serve(h, request(unary, "application/json", `"hello"`)); w.Code != 200 {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	w := serve(h, request(unary, "application/json", `"hello"`))
	if w.Code != 429 || w.Header().Get("Retry-After") != "60" || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
	if !strings.Contains(w.Body.String(), `"code":"resource_exhausted"`) || !strings.Contains(w.Body.String(), `google.rpc.QuotaFailure`) {
		t.Errorf("got %s", w.Body)
	}
}

// A counted body counts the bytes that are read.
type counted struct{ read int }

func (b *counted) Read(p []byte) (int, error) { b.read += len(p); return len(p), nil }

// No byte of the message of a denied call is read, in any protocol and whatever the client writes into Content-Type.
func TestDenied_ReadsNothing(t *testing.T) {
	l := testkit.Limiter(t, frozen(), core.SlidingLog("calls", core.Blocked))
	h := around(service(func(context.Context) error { t.Error("the handler runs"); return nil }), l, everyone)
	for _, contentType := range []string{
		"application/json", "application/proto", "application/connect+proto", "application/grpc", "application/grpc+proto", "application/grpc-web+proto",
		"", "application/grpc+", "APPLICATION/GRPC", "application/connect+", "application/", "application/grpc+" + strings.Repeat("x", 1<<20),
		"application/grpc+<script>", "application/json; charset=utf-16; boundary=\"", "text/plain, application/grpc", "\xff\xfe", "application/grpc-web-text",
	} {
		body := new(counted)
		r := httptest.NewRequest("POST", unary, io.NopCloser(body))
		r.Header["Content-Type"] = []string{contentType, "application/json"}
		r.ContentLength = 1 << 30
		w := serve(h, r)
		if w.Code != 200 && w.Code != 429 || body.read != 0 || w.Header().Get("RateLimit") == "" {
			t.Errorf("%.40q: got %d, %d bytes read and the header %.300v", contentType, w.Code, body.read, w.Header())
		}
	}
}

// A client with a message that is above the limit of connect gets the denial, not an error about the message.
func TestDenied_Oversized(t *testing.T) {
	each(t, func(t *testing.T, p protocol, method string) {
		if p.http1 && method != unary { // net/http closes a connection whose request it does not read
			t.Skip()
		}
		l := testkit.Limiter(t, frozen(), core.SlidingLog("calls", core.Blocked))
		c := start(t, p, around(service(succeed, connect.WithReadMaxBytes(1<<10)), l, everyone))
		size := 64 << 10
		if p.name == "connect, GET" {
			size = 8 << 10
		}
		details(t, c.call(t.Context(), method, 1, strings.Repeat("x", size)), connect.CodeResourceExhausted)
	})
}

// A path of 1 MB, and binary and repeated metadata: the responses are short, and no panic occurs.
func TestHostileRequests(t *testing.T) {
	l := testkit.Limiter(t, memstore.New(), core.SlidingLog("calls", core.PerMinute(100)))
	h := around(service(succeed), l, keyfunc.Header("X-User"))
	long := serve(h, request("/"+strings.Repeat("a", 1<<20), "application/json", ""))
	if long.Code != 400 || long.Body.Len() > 1<<10 {
		t.Errorf("got %d and %d bytes for a path of 1 MB, want 400 and fewer", long.Code, long.Body.Len())
	}
	each(t, func(t *testing.T, p protocol, method string) {
		c := start(t, p, h)
		for _, call := range []struct {
			fields []string
			want   connect.Code
		}{
			{[]string{"X-User: ann", "X-Trace-Bin: AP8", "X-Trace-Bin: AP8,/w"}, 0},
			{[]string{"X-User: ann", "X-User: bob"}, connect.CodeInvalidArgument},
			{[]string{"X-User-Bin: AP8"}, connect.CodeInvalidArgument},
			{[]string{"X-User: ann", "Retry-After: 5", "Grpc-Retry-Pushback-Ms: 5"}, 0},
		} {
			if err := c.call(t.Context(), method, 1, "", call.fields...); codeOf(err) != call.want {
				t.Errorf("%q: got %v, want %v", call.fields, err, call.want)
			}
		}
	})
}

// The limit admits as many of 64 calls at the same time as it has.
func TestConcurrent(t *testing.T) {
	each(t, func(t *testing.T, p protocol, method string) {
		l := testkit.Limiter(t, memstore.New(), core.SlidingLog("calls", core.PerDay(20)))
		c := start(t, p, around(service(succeed), l, everyone))
		var admitted, denied atomic.Int64
		testkit.Concurrently(64, func(int) {
			switch codeOf(c.call(t.Context(), method, 1, "")) {
			case 0:
				admitted.Add(1)
			case connect.CodeResourceExhausted:
				denied.Add(1)
			}
		})
		if admitted.Load() != 20 || denied.Load() != 44 {
			t.Errorf("admitted %d and denied %d of 64 calls, want 20 and 44", admitted.Load(), denied.Load())
		}
	})
}

// A stream of 10 000 messages counts as one call.
func TestStream_CountsOnce(t *testing.T) {
	for _, i := range []int{0, 4, 5} { // one of each protocol
		l := testkit.Limiter(t, memstore.New(), core.SlidingLog("calls", core.PerDay(5)))
		c := start(t, protocols[i], around(service(succeed), l, everyone))
		testkit.Must(t, c.call(t.Context(), clientStream, 10_000, "hello"))
		if left := testkit.Left(t, l, "everyone"); left != 4 {
			t.Errorf("%s: %d calls left, want 4", c.p.name, left)
		}
	}
}

// A call has its place until its handler has returned, and the next one gets it. The handler of a client that has gone
// still has its place.
func TestInFlight(t *testing.T) {
	fails := connect.NewError(connect.CodeNotFound, errors.New("not found"))
	each(t, func(t *testing.T, p protocol, method string) {
		for name, end := range map[string]func() error{
			"returns": func() error { return nil },
			"fails":   func() error { return fails },
			"panics":  func() error { panic(http.ErrAbortHandler) },
			"gone":    nil,
		} {
			t.Run(name, func(t *testing.T) {
				l := testkit.Limiter(t, memstore.New(), core.InFlight("running", 1))
				entered, leave, done := make(chan struct{}), make(chan error), make(chan struct{}, 1)
				gated := around(service(func(ctx context.Context) error {
					entered <- struct{}{}
					if end == nil {
						<-ctx.Done()
					}
					<-leave
					if end == nil {
						return ctx.Err()
					}
					return end()
				}), l, everyone)
				var first atomic.Bool
				c := start(t, p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if first.CompareAndSwap(false, true) {
						defer func() { done <- struct{}{} }()
					}
					gated.ServeHTTP(w, r)
				}))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- c.call(ctx, method, 1, "") }()
				<-entered
				if end == nil {
					cancel()
					<-ended
				}
				_, retry, quota := details(t, c.call(t.Context(), method, 1, ""), connect.CodeResourceExhausted)
				if retry != nil || len(quota.GetViolations()) != 1 || quota.Violations[0].Description != "1" || quota.Violations[0].QuotaMetric != "concurrent-requests" {
					t.Errorf("got %v and %v, want a quota without a wait", retry, quota)
				}
				close(leave)
				<-done
				if end != nil {
					<-ended
				}
				if used := testkit.Used(t, l, "everyone"); used[0] != 0 {
					t.Errorf("%d places are taken after the call, want 0", used[0])
				}
			})
		}
	})
}

// A handler finds the decision in its ctx, and can change the charge.
func TestHandler_Context(t *testing.T) {
	each(t, func(t *testing.T, p protocol, method string) {
		l := testkit.Limiter(t, memstore.New(), core.SlidingLog("calls", core.PerDay(10)))
		h := service(func(ctx context.Context) error {
			if d, ok := gate.FromContext(ctx); !ok || d.State(0).Remaining != 9 {
				return fmt.Errorf("got the decision %v, %v", d, ok)
			}
			return gate.Settle(ctx, 3)
		})
		testkit.Must(t, start(t, p, around(h, l, everyone)).call(t.Context(), method, 1, ""))
		if left := testkit.Left(t, l, "everyone"); left != 7 {
			t.Errorf("%d left, want 7", left)
		}
	})
}

func TestAnswers_Panics(t *testing.T) {
	l := testkit.Limiter(t, memstore.New(), core.SlidingLog("calls", core.PerDay(1)))
	testkit.Panics(t, "connectlimit: Answers: error writer is nil", func() { connectlimit.Answers(nil) })
	testkit.Panics(t, "otherlimit: New: nethttplimit.OnDenied is an option for nethttplimit.New only", func() {
		adapter.New[func()]("otherlimit", l, everyone, answers)
	})
}

func BenchmarkDenied(b *testing.B) {
	l := core.Must(core.New(memstore.New(), core.SlidingLog("calls", core.Blocked)))
	for _, contentType := range []string{"application/json", "application/grpc", "application/grpc-web", "text/plain"} {
		b.Run(contentType, func(b *testing.B) {
			h := around(http.NotFoundHandler(), l, everyone)
			r := request(unary, contentType, "")
			b.ReportAllocs()
			for b.Loop() {
				serve(h, r)
			}
		})
	}
}
