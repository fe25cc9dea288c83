package gate

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

// base is a policy without limiters.
type base struct{}

func (base) ForRequest(*http.Request) *core.Limiter { return nil }

// A changing is a policy whose configuration changes while ForRequest runs for the first time.
type changing struct {
	routes, all [2]*core.Limiter // of both configurations
	now, calls  int
}

func (c *changing) ForAll() *core.Limiter { return c.all[c.now] }

func (c *changing) ForRequest(*http.Request) *core.Limiter {
	l := c.routes[c.now]
	if c.calls++; c.calls == 1 {
		c.now = 1
	}
	return l
}

// The limiters of a request are those of one configuration.
func TestGate_Admit_ForAllChanges(t *testing.T) {
	s := memstore.New()
	limiter := func(name string) *core.Limiter {
		return core.Must(core.New(s, core.TokenBucket(name, core.PerSecond(1000))))
	}
	base, a, b, all := limiter("base"), limiter("a"), limiter("b"), limiter("all")
	for name, c := range map[string]struct {
		policy changing
		want   []string
		calls  int
	}{
		"unchanged": {changing{routes: [2]*core.Limiter{a, a}, all: [2]*core.Limiter{all, all}}, []string{"a", "all"}, 1},
		"added":     {changing{routes: [2]*core.Limiter{a, b}, all: [2]*core.Limiter{nil, all}}, []string{"b", "all"}, 2},
		"removed":   {changing{routes: [2]*core.Limiter{a, all}, all: [2]*core.Limiter{all, nil}}, []string{"all"}, 2},
		"another":   {changing{routes: [2]*core.Limiter{a, nil}, all: [2]*core.Limiter{b, all}}, []string{"base", "all"}, 2},
		"the same":  {changing{routes: [2]*core.Limiter{a, all}, all: [2]*core.Limiter{b, all}}, []string{"all"}, 2},
		"of New":    {changing{all: [2]*core.Limiter{base, base}}, []string{"base"}, 1},
	} {
		var got []string
		g := newGate("test", base, anyKey, []Option{Routes(&c.policy), OnDecision(func(_ context.Context, e Event) {
			for _, s := range e.Decision.States() {
				got = append(got, s.Rule.Name())
			}
		})})
		g.Admit(t.Context(), header(), get("/"), "")
		if !slices.Equal(got, c.want) || c.policy.calls != c.calls {
			t.Errorf("%s: got the rules %q and %d calls, want %q and %d", name, got, c.policy.calls, c.want, c.calls)
		}
	}
}

// A limiter of all routes costs no allocation more than one of And.
func TestGate_Admit_ForAllAllocations(t *testing.T) {
	s := memstore.New()
	limiter := func(name string) *core.Limiter {
		return core.Must(core.New(s, core.TokenBucket(name, core.PerSecond(1_000_000_000).WithBurst(1_000_000_000))))
	}
	first, all := limiter("first"), limiter("all")
	h, r := header(), get("/")
	for name, c := range map[string]struct {
		opt  Option
		want float64
	}{
		"And": {And(all, anyKey), 2}, "ForAll": {Routes(&changing{all: [2]*core.Limiter{all, all}}), 2},
		"no ForAll": {Routes(base{}), 1}, "ForAll without a limiter": {Routes(new(changing)), 1},
	} {
		g := newGate("test", first, anyKey, []Option{Headers(), c.opt})
		if got := testing.AllocsPerRun(1000, func() { g.Admit(r.Context(), h, r, "") }); got != c.want {
			t.Errorf("%s: got %v allocations, want %v", name, got, c.want)
		}
	}
}

// A gate with Routes rejects a path that has a dot segment only when it is decoded.
func TestGate_Admit_EncodedDots(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.TokenBucket("r", core.PerSecond(1000))))
	var failed error
	let := OnError(func(_ *http.Request, err error, status int) int { failed = err; return 0 })
	for target, want := range map[string]int{
		"/": 0, "/a/../b": 0, "/./a": 0, "/a..b": 0, "/a%2e": 0, "/...": 0, "/%2e%2e%2e": 0, "/a%2Fb": 0, "/%252e%252e/a": 0, "/a?b=/%2e%2e/": 0,
		"/%2e": 400, "/%2e%2e/a": 400, "/a/.%2e": 400, "/a%2F..": 400, "/a%2f.%2fb": 400, "/..%2Fa": 400, "/%2E./a": 400, "/%2F%2e%2e%2F": 400,
	} {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			t.Fatal(err)
		}
		r := get("/")
		r.URL = u
		status := func(opts ...Option) int {
			_, _, rejection := newGate("test", l, anyKey, opts).Admit(t.Context(), header(), r, "")
			if rejection == nil {
				return 0
			}
			return rejection.Problem.Status
		}
		if got := status(Routes(base{})); got != want {
			t.Errorf("%s: got status %d, want %d", target, got, want)
		}
		if got := status(); got != 0 {
			t.Errorf("%s without Routes: got status %d", target, got)
		}
		failed = nil
		if got := status(Routes(base{}), let); got != 0 || (want != 0) != errors.Is(failed, ErrPath) {
			t.Errorf("%s with OnError: got status %d, error %v", target, got, failed)
		}
	}
}
