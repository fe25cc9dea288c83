package rules_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

func BenchmarkSet_ForRequest(b *testing.B) {
	s, err := rules.New(memstore.New(), routed(b, "POST /login", "/v1/", "/v1/users/{id}"))
	testkit.Must(b, err)
	for _, c := range []struct{ target, pattern string }{
		{"/v1/users/7", "/v1/users/:name"}, {"/v1/users/7", "/v1/*path"}, {"/v1/users/7", ""}, {"POST /login", ""}, {"/v1", ""}, {"/none", ""},
	} {
		b.Run(c.target+" "+c.pattern, func(b *testing.B) {
			b.ReportAllocs()
			for r := requestFor(b, c.target, c.pattern); b.Loop(); {
				s.ForRequest(r)
			}
		})
	}
}

// The first case is a plain limiter.
func BenchmarkSet(b *testing.B) {
	ctx := context.Background()
	run := func(name string, l *core.Limiter, key string) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = l.Allow(ctx, key)
			}
		})
	}
	run("plain", core.Must(core.New(memstore.New(), core.TokenBucket("r", core.PerSecond(1_000_000)))), "k")
	for _, c := range decisions {
		run(c.name, limiter(b, newSet(b, c.policies), "api"), c.key)
	}
	config := parse(b, fast+"}")
	api := config.Policies["api"]
	api.Keys = make(map[string]rules.Override)
	for i := range 100_000 {
		api.Keys[fmt.Sprint("user:", i)] = rules.Override{Plan: "gold"}
	}
	config.Policies["api"] = api
	s, err := rules.New(memstore.New(), config)
	testkit.Must(b, err)
	l, _ := s.Limiter("api")
	run("many overrides", l, "k")
}

// BenchmarkSet_ForRequest_LongPath looks up paths of 900 KB, which are the longest that net/http accepts, and a
// short one.
func BenchmarkSet_ForRequest_LongPath(b *testing.B) {
	s, err := rules.New(memstore.New(), routed(b, "POST /login", "/v1/", "/v1/users/{id}", "/files/{path...}", "/files/private/"))
	testkit.Must(b, err)
	for name, target := range map[string]string{
		"short": "/files/private/a", "short, encoded": "/files/private%2Fa", "segments": strings.Repeat("/a", 450_000), "encoded": "/" + strings.Repeat("%61/", 225_000),
		"slashes": strings.Repeat("/", 900_000), "encoded slashes": "/" + strings.Repeat("%2F", 300_000), "dots": strings.Repeat("/a/..", 180_000), "backslashes": "/" + strings.Repeat("%5C", 300_000), "encoded twice": "/" + strings.Repeat("%252F", 180_000),
		"one segment": "/" + strings.Repeat("a", 900_000),
	} {
		u, err := url.ParseRequestURI(target)
		testkit.Must(b, err)
		for _, pattern := range []string{"", "/*"} {
			b.Run(name+" "+pattern, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					s.ForRequest(&http.Request{Method: "GET", URL: u, Pattern: pattern})
				}
			})
		}
	}
}

func BenchmarkSet_ManyPolicies(b *testing.B) {
	text := manyPolicies(100_000)
	c, err := rules.Parse("f", text)
	testkit.Must(b, err)
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			_, err := rules.Parse("f", text)
			testkit.Must(b, err)
		}
	})
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			_, err := rules.New(memstore.New(), c)
			testkit.Must(b, err)
		}
	})
}

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
