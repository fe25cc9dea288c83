package gate_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// The look-up finds the plan as a plan function does, and runs once for a request.
func TestCaller(t *testing.T) {
	const base, pro = `"api";q=3;w=60`, `"api";q=5;w=60`
	type look = func(context.Context, *http.Request) (key, plan string, err error)
	returns := func(key, plan string, err error) look {
		return func(context.Context, *http.Request) (string, string, error) { return key, plan, err }
	}
	other := func(t *testing.T, s core.Store) *core.Limiter { return core.Must(core.New(s, hundred)) }
	for name, c := range map[string]struct {
		find     look
		rules    []core.Rule
		with     func(t *testing.T, caller keyfunc.Func, s core.Store) (keyfunc.Func, []gate.Option)
		status   int
		policies string
		finds    int
	}{
		"a plan":       {returns("ann", "pro", nil), nil, nil, 200, pro, 1},
		"no plan":      {returns("ann", "", nil), nil, nil, 200, base, 1},
		"unknown":      {returns("ann", "prr", nil), nil, nil, 200, base, 1},
		"unlimited":    {returns("ann", "staff", nil), nil, nil, 200, "", 1},
		"blocked":      {returns("ann", "banned", nil), nil, nil, 429, `"api";q=0`, 1},
		"no key":       {returns("", "pro", keyfunc.ErrNoKey), nil, nil, 400, "", 1},
		"an empty key": {returns("", "pro", nil), nil, nil, 400, "", 1},
		"not limited":  {returns("ann", "pro", keyfunc.ErrNotLimited), nil, nil, 200, "", 1},
		"fault":        {returns("ann", "pro", errSecret), nil, nil, 500, "", 1},
		"FirstOf with a key": {returns("ann", "pro", nil), nil, func(_ *testing.T, caller keyfunc.Func, _ core.Store) (keyfunc.Func, []gate.Option) {
			return keyfunc.FirstOf(noKey(keyfunc.ErrNoToken), caller, constant("k")), nil
		}, 200, pro, 1},
		"FirstOf and a fault": {returns("ann", "pro", errSecret), nil, func(_ *testing.T, caller keyfunc.Func, _ core.Store) (keyfunc.Func, []gate.Option) {
			return keyfunc.FirstOf(caller, constant("k")), nil
		}, 500, "", 1},
		"rules without plans": {returns("ann", "pro", nil), []core.Rule{hundred}, nil, 200, `"hundred";q=100;w=3600`, 1},
		"a plan function beside it": {returns("ann", "pro", nil), nil, func(_ *testing.T, caller keyfunc.Func, _ core.Store) (keyfunc.Func, []gate.Option) {
			return caller, []gate.Option{gate.Plan(constant(""))}
		}, 200, base, 1},
		"FirstOf": {returns("", "pro", keyfunc.ErrNoKey), nil, func(_ *testing.T, caller keyfunc.Func, _ core.Store) (keyfunc.Func, []gate.Option) {
			return keyfunc.FirstOf(caller, constant("k")), nil
		}, 200, base, 1},
		"two limiters": {returns("ann", "pro", nil), nil, func(t *testing.T, caller keyfunc.Func, s core.Store) (keyfunc.Func, []gate.Option) {
			return caller, []gate.Option{gate.And(core.Must(core.New(s, core.SlidingLog("day", core.PerDay(7)).Plan("pro", core.PerDay(70)))), caller)}
		}, 200, pro + `, "day";q=70;w=86400`, 1},
		"after one without plans": {returns("ann", "pro", nil), []core.Rule{hundred}, func(t *testing.T, caller keyfunc.Func, s core.Store) (keyfunc.Func, []gate.Option) {
			return caller, []gate.Option{gate.And(core.Must(core.New(s, planned)), caller)}
		}, 200, `"hundred";q=100;w=3600, ` + pro, 1},
		"before one without plans": {returns("ann", "pro", nil), nil, func(t *testing.T, caller keyfunc.Func, s core.Store) (keyfunc.Func, []gate.Option) {
			return caller, []gate.Option{gate.And(other(t, s), caller), gate.OnDecision(func(_ context.Context, e gate.Event) {
				if plan := e.Decision.State(1).Rule.PlanName(); plan != "" {
					t.Errorf("the limiter without plans has the plan %q", plan)
				}
			})}
		}, 200, pro + `, "hundred";q=100;w=3600`, 1},
		"beside another key": {returns("ann", "pro", nil), nil, func(t *testing.T, caller keyfunc.Func, s core.Store) (keyfunc.Func, []gate.Option) {
			return caller, []gate.Option{gate.And(core.Must(core.New(s, core.SlidingLog("ip", core.PerDay(7)).Plan("pro", core.Unlimited))), constant("k"))}
		}, 200, pro + `, "ip";q=7;w=86400`, 1},
		"of all routes": {returns("ann", "pro", nil), []core.Rule{hundred}, func(t *testing.T, caller keyfunc.Func, s core.Store) (keyfunc.Func, []gate.Option) {
			return caller, []gate.Option{gate.Routes(allRoutes{core.Must(core.New(s, planned))})}
		}, 200, `"hundred";q=100;w=3600, ` + pro, 1},
		"of a route, and all without plans": {returns("ann", "pro", nil), nil, func(t *testing.T, caller keyfunc.Func, s core.Store) (keyfunc.Func, []gate.Option) {
			return caller, []gate.Option{gate.Routes(allRoutes{other(t, s)})}
		}, 200, pro + `, "hundred";q=100;w=3600`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			finds, s := 0, memstore.New()
			caller := gate.Caller(func(ctx context.Context, r *http.Request) (key, plan string, err error) {
				finds++
				return c.find(ctx, r)
			})
			if c.rules == nil {
				c.rules = []core.Rule{planned}
			}
			key, opts := caller, []gate.Option(nil)
			if c.with != nil {
				key, opts = c.with(t, caller, s)
			}
			h := nethttplimit.New(core.Must(core.New(s, c.rules...)), key, append(opts, quiet)...)(says("ok"))
			for i := range 2 {
				w := do(h, "GET", "/")
				if got := w.Header().Get("RateLimit-Policy"); w.Code != c.status || got != c.policies || finds != (i+1)*c.finds {
					t.Errorf("request %d: got %d, RateLimit-Policy %s and %d look-ups, want %d, %s and %d", i, w.Code, got, finds, c.status, c.policies, (i+1)*c.finds)
				}
			}
		})
	}
}

// allRoutes is a policy of all routes.
type allRoutes struct{ l *core.Limiter }

func (p allRoutes) ForRequest(*http.Request) *core.Limiter { return nil }
func (p allRoutes) ForAll() *core.Limiter                  { return p.l }

// The look-up gets the context and the request that the function has got. Only a gate and FirstOf know the key.
func TestCaller_Arguments(t *testing.T) {
	type key struct{}
	var got []any
	caller := gate.Caller(func(ctx context.Context, r *http.Request) (string, string, error) {
		got = append(got, ctx.Value(key{}), r.URL.Path)
		return "ann", "pro", nil
	})
	rewritten := func(ctx context.Context, r *http.Request) (string, error) {
		r = r.Clone(ctx)
		r.URL.Path = "/rewritten"
		return caller(context.WithValue(ctx, key{}, "value"), r)
	}
	l := core.Must(core.New(memstore.New(), planned))
	status := func(key keyfunc.Func) int {
		return do(nethttplimit.New(l, key, quiet)(says("ok")), "GET", "/path").Code
	}
	if code := status(rewritten); code != 200 || !slices.Equal(got, []any{"value", "/rewritten"}) {
		t.Errorf("got %d and a look-up for %v", code, got)
	}
	if left := testkit.Left(t, l.Plan("pro"), "ann"); left != 4 {
		t.Errorf("%d are left of the plan pro, want 4", left)
	}
	for name, f := range map[string]keyfunc.Func{
		"Join": keyfunc.Join(constant("k"), caller), "Join of it alone": keyfunc.Join(caller), "Join before others": keyfunc.Join(caller, constant("k")),
		"Fold": keyfunc.Fold(caller), "Fold in FirstOf": keyfunc.FirstOf(keyfunc.Fold(caller), constant("k")),
	} {
		if code := status(f); code != 500 {
			t.Errorf("%s: got %d, want 500", name, code)
		}
	}
	if found, err := caller(t.Context(), request("GET", "/")); found != "" || err == nil || !strings.Contains(err.Error(), "only for New, Limit and And") {
		t.Errorf("outside of a gate: got %q, %v", found, err)
	}
}

// A plan is that of the key with which it was found, whatever other functions do.
func TestCaller_PlanOfAnotherKey(t *testing.T) {
	ann := gate.Caller(func(context.Context, *http.Request) (string, string, error) { return "ann", "pro", nil })
	guest := gate.Caller(func(context.Context, *http.Request) (string, string, error) { return "", "pro", keyfunc.ErrNoKey })
	rejecting := func(ctx context.Context, r *http.Request) (string, error) {
		_, _ = ann(ctx, r)
		return "", keyfunc.ErrNoKey
	}
	for name, key := range map[string]keyfunc.Func{
		"after a guest":          keyfunc.FirstOf(guest, constant("k")),
		"after a rejected one":   keyfunc.FirstOf(rejecting, constant("k")),
		"after a missing part":   keyfunc.FirstOf(keyfunc.Join(noKey(keyfunc.ErrNoKey), ann), constant("k")),
		"before the other one":   keyfunc.FirstOf(constant("k"), ann),
		"two without a key":      keyfunc.FirstOf(guest, guest, constant("k")),
		"a FirstOf of a FirstOf": keyfunc.FirstOf(keyfunc.FirstOf(guest), constant("k")),
	} {
		w := do(nethttplimit.Limit(memstore.New(), planned, key, quiet)(says("ok")), "GET", "/")
		if got := w.Header().Get("RateLimit-Policy"); w.Code != 200 || got != `"api";q=3;w=60` {
			t.Errorf("%s: got %d, %s, want the limit without a plan", name, w.Code, got)
		}
	}
	w := do(nethttplimit.Limit(memstore.New(), planned, keyfunc.FirstOf(keyfunc.FirstOf(guest), ann), quiet)(says("ok")), "GET", "/")
	if got := w.Header().Get("RateLimit-Policy"); w.Code != 200 || got != `"api";q=5;w=60` {
		t.Errorf("the second of two: got %d, %s, want the plan pro", w.Code, got)
	}
}
