package gate_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
)

// A request whose handler does not run, or that is let through without a decision, has no place, whether or
// not its first key is exhausted. A panic of a function of the application takes no place either.
func TestInFlight_NoHandler(t *testing.T) {
	const boom = -1 // in place of a status: the request panics
	panics := func() { panic("boom") }
	for name, c := range map[string]struct {
		second keyfunc.Func // the key of another limiter
		opts   []gate.Option
		want   int
	}{
		"no key":                   {noKey(keyfunc.ErrNoKey), nil, 400},
		"no token":                 {noKey(keyfunc.ErrNoToken), nil, 401},
		"no token, let through":    {noKey(keyfunc.ErrNoToken), []gate.Option{letThrough}, 200},
		"partial key":              {keyfunc.Join(constant("b"), noKey(keyfunc.ErrNoToken)), nil, 401},
		"partial key, let through": {keyfunc.Join(constant("b"), noKey(keyfunc.ErrNoToken)), []gate.Option{letThrough}, 200},
		"key function fails":       {noKey(errSecret), []gate.Option{quiet}, 500},
		"negative cost":            {constant("b"), []gate.Option{quiet, costs(-1)}, 500},
		"skipped":                  {constant("b"), []gate.Option{skipped}, 200},
		"not limited":              {noKey(keyfunc.ErrNotLimited), nil, 200},
		"denied by the second":     {constant("full"), nil, 429},
		"partial key is denied":    {keyfunc.Join(constant("full"), noKey(keyfunc.ErrNoToken)), nil, 429},
		"key function panics":      {func(context.Context, *http.Request) (string, error) { panics(); return "", nil }, nil, boom},
		"OnError panics": {noKey(keyfunc.ErrNoToken), []gate.Option{
			gate.OnError(func(*http.Request, error, int) int { panics(); return 0 }),
		}, boom},
		"OnDecision panics": {constant("b"), []gate.Option{
			gate.OnDecision(func(context.Context, gate.Event) { panics() }),
		}, boom},
		"DeniedStatus panics": {constant("full"), []gate.Option{
			gate.DeniedStatus(func(core.Decision) int { panics(); return 0 }),
		}, boom},
	} {
		for state, exhausted := range map[string]bool{"": false, ", exhausted": true} {
			t.Run(name+state, func(t *testing.T) {
				eachStore(t, func(t *testing.T, s core.Store) {
					first, second := testkit.Limiter(t, s, exports(2)), testkit.Limiter(t, s, core.InFlight("second", 1))
					var ready atomic.Bool // the keys are known until then
					key := func(ctx context.Context, r *http.Request) (string, error) {
						if !ready.Load() {
							return "b", nil
						}
						return c.second(ctx, r)
					}
					h := build(first, constant("k"), append([]gate.Option{gate.And(second, key)}, c.opts...), waits)
					if exhausted {
						places := []*core.Reservation{testkit.Reserve(t, first, "k", 1), testkit.Reserve(t, first, "k", 1)}
						caught(func() { h.ServeHTTP(discard{}, request("GET", "/")) })
						for _, p := range places {
							testkit.Must(t, p.Release(t.Context()))
						}
					}
					ready.Store(true)
					full := testkit.Reserve(t, second, "full", 1)
					partial := testkit.Reserve(t, second, partialKey(t), 1)
					status := boom
					if got := caught(func() { status = record(t, h, request("GET", "/")).Status }); (got != nil) != (c.want == boom) {
						t.Errorf("the request panics with %v", got)
					}
					if status != c.want {
						t.Errorf("the status is %d, want %d", status, c.want)
					}
					synctest.Wait()
					checkUsed(t, first, "k", 0)
					checkUsed(t, second, "b", 0)
					testkit.Must(t, full.Release(t.Context()))
					testkit.Must(t, partial.Release(t.Context()))
				})
			})
		}
	}
}

// partialKey returns the partial key of a Join of "full" and a missing key.
func partialKey(t *testing.T) string {
	t.Helper()
	_, err := keyfunc.Join(constant("full"), noKey(keyfunc.ErrNoToken))(t.Context(), request("GET", "/"))
	var partial interface{ PartialKey() string }
	if !errors.As(err, &partial) {
		t.Fatalf("%v has no partial key", err)
	}
	return partial.PartialKey()
}

// A discard is a ResponseWriter without a response.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// A request has its place while a leaky bucket delays it. The place is free if the client leaves then.
func TestInFlight_Delayed(t *testing.T) {
	eachStore(t, func(t *testing.T, s core.Store) {
		l := testkit.Limiter(t, s, exports(2), core.LeakyBucket("queue", core.PerMinute(1).WithBurst(9)))
		a := start(setup{Limiter: l, Handler: waits, Opts: []gate.Option{gate.MaxDelay(time.Hour)}})
		a.Gets(t, 200)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		gone, stays := enter(a, ctx), enter(a, t.Context())
		a.CheckRan(t, 1)
		checkUsed(t, l, "k", 2, 3)
		a.Gets(t, 429)
		cancel()
		gone.end(t, 503)
		checkUsed(t, l, "k", 1, 3)
		time.Sleep(3 * time.Minute)
		a.CheckRan(t, 2)
		stays.end(t, 200)
		if got := testkit.Used(t, l, "k")[0]; got != 0 {
			t.Errorf("%d places are taken, want 0", got)
		}
	})
}

// A request that ends while the store decides has no place, although the store has taken one.
func TestInFlight_EndedWhileDeciding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		store := memory().Set(func(c context.Context, charges []driver.Charge, next storetest.Call) error {
			if charges[0].Op != driver.Spend {
				return next(c, charges)
			}
			cancel()
			if err := next(c, charges); err != nil {
				return err
			}
			return c.Err() // as if the reply came too late
		})
		a := start(setup{Store: store, Rules: []core.Rule{exports(1)}, Handler: waits})
		if got := record(t, a, request("GET", "/").WithContext(ctx)); got.Status != 503 {
			t.Errorf("the status is %d, want 503", got.Status)
		}
		a.CheckRan(t, 0)
		a.CheckTaken(t, "k", 0)
	})
}
