package gate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// events collects the texts of events.
type events []string

func (e *events) option() gate.Option {
	return gate.OnDecision(func(_ context.Context, n gate.Event) {
		text := fmt.Sprint(n.Outcome, " ", n.Pattern, " ", n.Status, " ", n.Decision.Len())
		if n.Err != nil {
			text += " " + n.Err.Error()
		}
		*e = append(*e, text)
	})
}

func TestOnDecision(t *testing.T) {
	hour := func(name string, n int) core.Rule { return core.SlidingLog(name, core.PerHour(n)) }
	failure := fmt.Errorf("%w: killed", core.ErrUnavailable)
	fails := func(err error) keyfunc.Func {
		return func(context.Context, *http.Request) (string, error) { return "", err }
	}
	let := gate.OnError(func(*http.Request, error, int) int { return 0 })
	for _, c := range []struct {
		name string
		rule core.Rule
		fail error // of the Store
		key  keyfunc.Func
		opts []gate.Option
		want []string // of two requests
	}{
		{"admitted, then denied", hour("api", 1), nil, nil, nil, []string{"admitted GET /v1/ 0 1", "denied GET /v1/ 429 1"}},
		{"another status", hour("api", 1), nil, nil, []gate.Option{gate.DeniedStatus(func(core.Decision) int { return 403 })},
			[]string{"admitted GET /v1/ 0 1", "denied GET /v1/ 403 1"}},
		{"soft", hour("api", 1).Soft(100), nil, nil, nil, []string{"admitted GET /v1/ 0 1", "soft GET /v1/ 0 1"}},
		{"delayed", core.LeakyBucket("api", core.PerSecond(1).WithBurst(2)), nil, nil, nil, []string{"admitted GET /v1/ 0 1", "delayed GET /v1/ 0 1"}},
		{"skipped", hour("api", 1), nil, nil, []gate.Option{gate.Skip(func(context.Context, *http.Request) bool { return true })},
			[]string{"skipped GET /v1/ 0 0", "skipped GET /v1/ 0 0"}},
		{"not limited", hour("api", 1), nil, fails(keyfunc.ErrNotLimited), nil, []string{"not_limited GET /v1/ 0 0", "not_limited GET /v1/ 0 0"}},
		{"no key", hour("api", 1), nil, fails(keyfunc.ErrNoToken), nil,
			[]string{"rejected GET /v1/ 401 0 " + keyfunc.ErrNoToken.Error(), "rejected GET /v1/ 401 0 " + keyfunc.ErrNoToken.Error()}},
		{"no key, let through", hour("api", 1), nil, fails(keyfunc.ErrNoKey), []gate.Option{let},
			[]string{"let_through GET /v1/ 0 0 " + keyfunc.ErrNoKey.Error(), "let_through GET /v1/ 0 0 " + keyfunc.ErrNoKey.Error()}},
		{"the Store fails", hour("api", 1), failure, nil, nil,
			[]string{"let_through GET /v1/ 0 0 " + failure.Error(), "let_through GET /v1/ 0 0 " + failure.Error()}},
		{"the Store fails closed", hour("api", 1), failure, nil, []gate.Option{gate.FailClosed()},
			[]string{"refused GET /v1/ 503 0 " + failure.Error(), "refused GET /v1/ 503 0 " + failure.Error()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got events
				s := new(storetest.Fake)
				if c.fail != nil {
					s.Set(storetest.Fail(c.fail))
				}
				key := c.key
				if key == nil {
					key = keyfunc.Constant("k")
				}
				reached := 0
				mux := http.NewServeMux()
				mux.Handle("GET /v1/", nethttplimit.New(testkit.Limiter(t, s, c.rule), key, append(c.opts, got.option())...)(
					http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ })))
				through := 0
				for range 2 {
					if record(t, mux, request("GET", "/v1/orders")).Status == http.StatusOK {
						through++
					}
				}
				if reached != through {
					t.Errorf("the handler ran %d times, want %d", reached, through)
				}
				if fmt.Sprint([]string(got)) != fmt.Sprint(c.want) {
					t.Errorf("got  %q\nwant %q", got, c.want)
				}
			})
		})
	}
}

// A request of several keys is one event, and StoreTime is the time of all its decisions.
func TestOnDecision_SeveralKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(storetest.Fake).Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
			time.Sleep(time.Millisecond)
			return next(ctx, charges)
		})
		ip := testkit.Limiter(t, s, core.SlidingLog("ip", core.PerHour(1)))
		user := testkit.Limiter(t, s, core.SlidingLog("user", core.PerHour(9)))
		var got []gate.Event
		h := build(ip, keyfunc.Constant("a"), []gate.Option{
			gate.And(user, header("X-User")), gate.OnDecision(func(_ context.Context, e gate.Event) { got = append(got, e) }),
		}, func(http.ResponseWriter, *http.Request) {})
		for range 2 {
			record(t, h, with("X-User", "ann"))
		}
		record(t, h, with())
		if len(got) != 3 || got[0].Outcome != gate.Admitted || got[1].Outcome != gate.Denied || got[2].Outcome != gate.Denied {
			t.Fatalf("got %+v, want one event for each of three requests", got)
		}
		for i, e := range got {
			if e.StoreTime < time.Millisecond || e.StoreTime > 3*time.Millisecond {
				t.Errorf("event %d: got %v in the store, want 1 to 3 ms", i, e.StoreTime)
			}
		}
	})
}

// A request that ends while it is delayed is refused.
func TestOnDecision_EndedWhileDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []gate.Event
		l := testkit.Limiter(t, memstore.New(), core.LeakyBucket("api", core.PerMinute(10).WithBurst(2)))
		h := build(l, keyfunc.Constant("k"), []gate.Option{gate.OnDecision(func(_ context.Context, e gate.Event) { got = append(got, e) })},
			func(http.ResponseWriter, *http.Request) {})
		record(t, h, request("GET", "/"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		record(t, h, request("GET", "/").WithContext(ctx))
		if len(got) != 2 || got[1].Outcome != gate.Refused || got[1].Status != 503 || !errors.Is(got[1].Err, context.DeadlineExceeded) || got[1].Decision.Len() != 0 {
			t.Errorf("got %+v, want a refused request", got)
		}
	})
}

// A request that ends in its key function is refused, unless its key is missing.
func TestOnDecision_EndedInKeyFunction(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{context.Canceled, "[refused  503 0 context canceled]"},
		{keyfunc.ErrNoToken, "[rejected  401 0 " + keyfunc.ErrNoToken.Error() + "]"},
	} {
		var got events
		ctx, cancel := context.WithCancel(t.Context())
		key := func(context.Context, *http.Request) (string, error) { cancel(); return "", c.err }
		h := build(testkit.Limiter(t, memstore.New(), hundred), key, []gate.Option{got.option()}, func(http.ResponseWriter, *http.Request) {})
		record(t, h, request("GET", "/").WithContext(ctx))
		if fmt.Sprint(got) != c.want {
			t.Errorf("%v: got %v, want %v", c.err, got, c.want)
		}
	}
}

// A panic of the function propagates, and the handler does not run.
func TestOnDecision_Panic(t *testing.T) {
	h := build(testkit.Limiter(t, memstore.New(), hundred), keyfunc.Constant("k"), []gate.Option{gate.OnDecision(func(context.Context, gate.Event) { panic("no") })},
		func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
	defer func() {
		if got := recover(); got != "no" {
			t.Errorf("got %v, want the panic of the function", got)
		}
	}()
	record(t, h, request("GET", "/"))
}

func TestCheck_OnDecision(t *testing.T) {
	var got events
	l := testkit.Limiter(t, memstore.New(), core.SlidingLog("login", core.PerHour(1)))
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		nethttplimit.Check(w, r, l, "ann", got.option())
	})
	for range 2 {
		record(t, mux, request("POST", "/login"))
	}
	if want := "[admitted POST /login 0 1 denied POST /login 429 1]"; fmt.Sprint([]string(got)) != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOutcome_String(t *testing.T) {
	seen := map[string]bool{}
	for o := gate.NotLimited; o <= gate.LetThrough; o++ {
		seen[o.String()] = true
	}
	if len(seen) != 9 || gate.Outcome(9).String() != "gate.Outcome(9)" {
		t.Errorf("got %v and %v", seen, gate.Outcome(9))
	}
}

// In the function of OnDecision, Key returns the key of each limiter, admitted or denied, and FromContext the decision.
func TestOnDecision_Key(t *testing.T) {
	type value struct{}
	user := func(ctx context.Context, _ *http.Request) (string, error) { return ctx.Value(value{}).(string), nil }
	one, two := testkit.Limiter(t, memstore.New(), core.SlidingLog("one", core.PerHour(1))), testkit.Limiter(t, memstore.New(), core.SlidingLog("two", core.PerHour(5)))
	for name, c := range map[string]struct {
		opts []gate.Option
		want string
	}{
		"admitted, then denied": {nil, "admitted ann true, denied ann true"},
		"skipped":               {[]gate.Option{gate.Skip(func(context.Context, *http.Request) bool { return true })}, "skipped  false, skipped  false"},
		"undecided":             {[]gate.Option{gate.Cost(func(context.Context, *http.Request) int { return -1 }), gate.OnError(func(*http.Request, error, int) int { return 0 })}, "let_through  false, let_through  false"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			note := func(ctx context.Context, e gate.Event) {
				key, ok := gate.Key(ctx, one)
				if _, other := gate.Key(ctx, two); other || ctx.Value(value{}) != "ann" {
					t.Error("the key of another limiter, or another context")
				}
				if d, decided := gate.FromContext(ctx); decided != ok || d.String() != e.Decision.String() {
					t.Errorf("got the decision %v, want %v", d, e.Decision)
				}
				got = append(got, fmt.Sprint(e.Outcome, " ", key, " ", ok))
			}
			h := build(one, user, append(c.opts, gate.OnDecision(note)), func(http.ResponseWriter, *http.Request) {})
			for range 2 {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				h.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithValue(r.Context(), value{}, "ann")))
			}
			if all := strings.Join(got, ", "); all != c.want {
				t.Errorf("got %s, want %s", all, c.want)
			}
			if _, err := one.Reset(t.Context(), "ann"); err != nil {
				t.Error(err)
			}
		})
	}
}
