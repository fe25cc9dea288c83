package rules_test

import (
	"context"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

const fast = "api: {rules: [{name: r, algorithm: token_bucket, limit: 1000000/s, plans: {gold: 2000000/s}}]"

var decisions = []struct{ name, policies, key string }{
	{"no overrides", fast + "}", "k"},
	{"another key has an override", fast + ", keys: {j: {plan: gold}}}", "k"},
	{"a plan", fast + ", keys: {k: {plan: gold}}}", "k"},
	{"a limit", fast + ", keys: {k: {limits: {r: 3000000/s}}}}", "k"},
	{"a limit until a time", fast + ", keys: {k: {limits: {r: 3000000/s}, until: 2100-01-01T00:00:00Z}}}", "k"},
	{"blocked", fast + ", keys: {k: {blocked: true}}}", "k"},
	{"blocked until a time", fast + ", keys: {k: {blocked: true, until: 2100-01-01T00:00:00Z}}}", "k"},
	{"enforced for a part", fast + ", enforce: 50}", "user:241531"},
	{"enforced for a part, a long key", fast + ", enforce: 50}", strings.Repeat("k", 128)},
	{"off", fast + ", disabled: true}", "k"},
}

func TestSet_Allocations(t *testing.T) {
	testkit.WithoutRace(t)
	ctx := context.Background()
	for _, c := range decisions {
		l := limiter(t, newSet(t, c.policies), "api")
		for range 10 {
			_, _ = l.Allow(ctx, c.key)
		}
		if n := testing.AllocsPerRun(1000, func() { _, _ = l.Allow(ctx, c.key) }); n > 0 {
			t.Errorf("%s: got %v allocations, want none", c.name, n)
		}
	}
}

// The patterns of a router are remembered.
func TestSet_ForRequest_Allocations(t *testing.T) {
	testkit.WithoutRace(t)
	s, err := rules.New(memstore.New(), routed(t, "POST /login", "/v1/", "/v1/users/{id}"))
	testkit.Must(t, err)
	for _, c := range []struct{ target, pattern string }{
		{"POST //login", "/login"}, {"/v1/users/7", "GET /v1/users/{name}"}, {"/v1/users/7", "/v1/users/:name"},
	} {
		r := requestFor(t, c.target, c.pattern)
		if s.ForRequest(r) == nil {
			t.Errorf("%+v: got no limiter", c)
		}
		if n := testing.AllocsPerRun(1000, func() { s.ForRequest(r) }); n > 0 {
			t.Errorf("%+v: got %v allocations, want none", c, n)
		}
	}
}
