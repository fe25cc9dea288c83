package gate

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
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
	testkit.WithoutRace(t)
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
		testkit.Must(t, err)
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

// Both limiters of a request have the cost of the body, and a body is not read if one of them is exhausted.
func TestGate_Admit_ForAllAndBody(t *testing.T) {
	s := memstore.New()
	limiter := func(name string, n int) *core.Limiter {
		return core.Must(core.New(s, core.FixedWindow(name, core.PerDay(n))))
	}
	first, route, all, other := limiter("base", 100), limiter("route", 30), limiter("all", 20), limiter("other", 5)
	policy := &changing{routes: [2]*core.Limiter{route, route}, all: [2]*core.Limiter{all, all}}
	var reads int
	size := CostOfBody(100, func(_ context.Context, _ *http.Request, body []byte) (int, error) {
		reads++
		return len(body), nil
	})
	for _, opts := range [][]Option{{Routes(policy), size}, {Routes(policy), size, And(other, anyKey, Cost(func(context.Context, *http.Request) int { return 1 }))}} {
		if _, err := all.Reset(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if _, err := route.Reset(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		g := newGate("test", first, anyKey, opts)
		for i, c := range []struct {
			n, status, reads int
			left             [2]int // of the route and of all
		}{
			{12, 0, 1, [2]int{18, 8}},
			{9, 429, 1, [2]int{18, 8}},
			{8, 0, 1, [2]int{10, 0}},
			{1, 429, 0, [2]int{10, 0}}, // all is exhausted
		} {
			reads = 0
			r, _ := http.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(strings.Repeat("x", c.n)))
			_, _, rejection := g.Admit(r.Context(), header(), r, "")
			status := 0
			if rejection != nil {
				status = rejection.Problem.Status
			}
			a, _ := route.Peek(t.Context(), "k")
			b, _ := all.Peek(t.Context(), "k")
			if left := [2]int{a.State(0).Remaining, b.State(0).Remaining}; status != c.status || reads != c.reads || left != c.left {
				t.Errorf("%d options, request %d: got status %d, %d reads and %v left, want %d, %d, %v", len(opts), i, status, reads, left, c.status, c.reads, c.left)
			}
		}
	}
}

// renewing is a policy whose limiter of all routes is another view each time.
type renewing struct {
	base
	all *core.Limiter
}

func (p renewing) ForAll() *core.Limiter { return p.all.Plan("") }

// A request is charged once to the limiter of all routes: if And has it, too, for which no plan is chosen, and if
// it is another view each time.
func TestGate_Admit_ForAllOnce(t *testing.T) {
	s := memstore.New()
	first := core.Must(core.New(s, core.FixedWindow("first", core.PerDay(9)).Plan("gold", core.PerDay(90))))
	all := core.Must(core.New(s, core.FixedWindow("all", core.PerDay(9))))
	for name, c := range map[string]struct {
		policy Policy
		opts   []Option
	}{
		"And": {&changing{all: [2]*core.Limiter{all, all}}, []Option{And(all, anyKey)}},
		"new": {renewing{all: all}, nil},
	} {
		if _, err := all.Reset(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		plan := func(context.Context, *http.Request) (string, error) { return "gold", nil }
		g := newGate("test", first, anyKey, append(c.opts, Routes(c.policy), Plan(plan)))
		g.Admit(t.Context(), header(), get("/"), "")
		if d, err := all.Peek(t.Context(), "k"); err != nil || d.State(0).Used() != 1 {
			t.Errorf("%s: got %v, %v, want 1 of all used", name, d, err)
		}
	}
}
