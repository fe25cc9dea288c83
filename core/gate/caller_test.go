package gate_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/adapter"
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
		"a plan":              {returns("ann", "pro", nil), nil, nil, 200, pro, 1},
		"no plan":             {returns("ann", "", nil), nil, nil, 200, base, 1},
		"unknown":             {returns("ann", "prr", nil), nil, nil, 200, base, 1},
		"unlimited":           {returns("ann", "staff", nil), nil, nil, 200, "", 1},
		"blocked":             {returns("ann", "banned", nil), nil, nil, 429, `"api";q=0`, 1},
		"no key":              {returns("", "pro", keyfunc.ErrNoKey), nil, nil, 400, "", 1},
		"an empty key":        {returns("", "pro", nil), nil, nil, 400, "", 1},
		"not limited":         {returns("ann", "pro", keyfunc.ErrNotLimited), nil, nil, 200, "", 1},
		"fault":               {returns("ann", "pro", errSecret), nil, nil, 500, "", 1},
		"rules without plans": {returns("ann", "pro", nil), []core.Rule{hundred}, nil, 200, `"hundred";q=100;w=3600`, 1},
		"a plan function beside it": {returns("ann", "pro", nil), nil, func(_ *testing.T, caller keyfunc.Func, _ core.Store) (keyfunc.Func, []gate.Option) {
			return caller, []gate.Option{gate.Plan(constant(""))}
		}, 200, base, 1},
		"FirstOf": {returns("", "pro", keyfunc.ErrNoKey), nil, func(_ *testing.T, caller keyfunc.Func, _ core.Store) (keyfunc.Func, []gate.Option) {
			return keyfunc.FirstOf(caller, constant("k")), nil
		}, 200, base, 1},
		"Join": {returns("ann", "pro", nil), nil, func(_ *testing.T, caller keyfunc.Func, _ core.Store) (keyfunc.Func, []gate.Option) {
			return keyfunc.Join(constant("k"), caller), nil
		}, 200, pro, 1},
		"two limiters": {returns("ann", "pro", nil), nil, func(t *testing.T, caller keyfunc.Func, s core.Store) (keyfunc.Func, []gate.Option) {
			return caller, []gate.Option{gate.And(core.Must(core.New(s, core.SlidingLog("day", core.PerDay(7)).Plan("pro", core.PerDay(70)))), caller)}
		}, 200, pro + `, "day";q=70;w=86400`, 1},
		"after one without plans": {returns("ann", "pro", nil), []core.Rule{hundred}, func(t *testing.T, caller keyfunc.Func, s core.Store) (keyfunc.Func, []gate.Option) {
			return caller, []gate.Option{gate.And(core.Must(core.New(s, planned)), caller)}
		}, 200, `"hundred";q=100;w=3600, ` + pro, 1},
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

// A Caller gets the context of the framework, and functions beside it its values and parameters.
func TestCaller_Context(t *testing.T) {
	type key struct{}
	var got []string
	caller := gate.Caller(func(ctx context.Context, _ *http.Request) (string, string, error) {
		_, isFramework := ctx.(framework)
		got = append(got, ctx.Value(key{}).(string), map[bool]string{true: "framework"}[isFramework])
		return "", "", keyfunc.ErrNoKey
	})
	beside := func(ctx context.Context, _ *http.Request) (string, error) {
		got = append(got, ctx.Value(key{}).(string))
		return "", keyfunc.ErrNoKey
	}
	l := core.Must(core.New(memstore.New(), planned))
	g, _ := adapter.New[func()]("testlimit", l, keyfunc.FirstOf(caller, beside, keyfunc.PathValue("user")))
	ctx := framework{context.WithValue(t.Context(), key{}, "value")}
	if _, _, rejection := g.Admit(ctx, http.Header{}, request("GET", "/"), ""); rejection != nil {
		t.Error(rejection)
	}
	if want := []string{"value", "framework", "value"}; !slices.Equal(got, want) || testkit.Peek(t, l, "path:user:ann").State(0).Used() != 1 {
		t.Errorf("got %q and no event of the path, want %q", got, want)
	}
	if found, err := caller(ctx, request("GET", "/")); found != "" || !errors.Is(err, keyfunc.ErrNoKey) {
		t.Errorf("outside of a gate: got %q, %v", found, err)
	}
}

// A framework is the context of a framework with parameters of the path.
type framework struct{ context.Context }

func (framework) Param(string) string { return "ann" }
