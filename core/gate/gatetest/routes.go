package gatetest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
	"github.com/weir-go/weir/core/internal/routes"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

// Handlers are those of an application for the tests of [Routes].
type Handlers struct {
	Login http.HandlerFunc // of POST /login and GET /login
	User  http.HandlerFunc // of GET /users/ID for any ID
	Files http.HandlerFunc // of GET /files/PATH for any PATH, and of nothing else below /
}

// Routes returns an Option that adds the tests of [gate.Routes]. build must make an application of
// the framework with these handlers behind the middleware of g, where the framework has matched the
// request. The more spellings of a path the framework accepts, such as /login/ for /login, the more
// the tests check.
func Routes(build func(g Gate, h Handlers) http.Handler) Option {
	return func(s *suite) { s.buildRoutes = build }
}

var patterns = map[string]string{"POST /login": "login", "/users/{id}": "user", "/files/": "files", "GET /files/big/": "big"}

// A policies chooses a limiter by the pattern of a request. It implements [gate.Policy].
type policies struct {
	table    *routes.Table
	names    map[string]string // by pattern
	limiters map[string]*core.Limiter
	store    core.Store
	all      *core.Limiter // of all routes; nil if there is none
}

// ForAll is the method that [gate.Routes] describes.
func (p *policies) ForAll() *core.Limiter { return p.all }

// newPolicies returns policies with the names of patterns. The policy of New is "base".
func newPolicies(t *testing.T, patterns map[string]string) *policies {
	t.Helper()
	p := &policies{names: patterns, limiters: make(map[string]*core.Limiter), store: memstore.New()}
	rates := make(map[string]float64)
	for i, name := range []string{"base", "login", "user", "files", "big", "all"} {
		p.limiters[name] = testkit.Limiter(t, p.store, core.TokenBucket(name, core.PerMinute(1000+i)))
		for pattern, policy := range patterns {
			if policy == name {
				rates[pattern] = float64(1000 + i)
			}
		}
	}
	var err error
	p.table, err = routes.New(rates)
	testkit.Must(t, err)
	return p
}

// ForRequest implements [gate.Policy].
func (p *policies) ForRequest(r *http.Request) *core.Limiter {
	return p.limiters[p.names[p.table.Find(r)]]
}

// routed is an application whose limiters are chosen by policies.
type routed struct {
	http.Handler
	reached atomic.Pointer[string] // the handler of the last request
}

func (s *suite) startRouted(t *testing.T, patterns map[string]string) *routed {
	t.Helper()
	p, a := newPolicies(t, patterns), new(routed)
	handler := func(name string) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) { a.reached.Store(&name) }
	}
	g := Gate{p.limiters["base"], constant("k"), []gate.Option{gate.Routes(p)}}
	a.Handler = s.buildRoutes(g, Handlers{Login: handler("login"), User: handler("user"), Files: handler("files")})
	return a
}

// get sends a request, and returns the policy in its header and the handler.
func (a *routed) get(t *testing.T, method, target string) (policy, handler string) {
	t.Helper()
	r := request(method, "/")
	u, err := url.ParseRequestURI(target)
	testkit.Must(t, err)
	r.URL, r.RequestURI = u, target
	a.reached.Store(new(string))
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	name, _, _ := strings.Cut(w.Header().Get("RateLimit-Policy"), ";")
	return strings.Trim(name, `"`), *a.reached.Load()
}

func (s *suite) testRoutes(t *testing.T) {
	t.Run("of the framework", func(t *testing.T) {
		a := s.startRouted(t, patterns)
		for _, c := range []struct{ method, target, policy, handler string }{
			{"POST", "/login", "login", "login"},
			{"POST", "/login?next=/files/", "login", "login"},
			{"GET", "/login", "base", "login"},
			{"GET", "/users/1", "user", "user"},
			{"GET", "/users/a%2eb", "user", "user"},
			{"GET", "/users/files%2fbig%2fx", "user", "user"},
			{"GET", "/files/a", "files", "files"},
			{"GET", "/files/big/a", "big", "files"},
			{"GET", "/files/b%69g/a", "big", "files"},
		} {
			policy, handler := a.get(t, c.method, c.target)
			if handler == "" && strings.Contains(c.target, "%2") {
				continue // the framework reads %2f as a slash
			}
			if policy != c.policy || handler != c.handler {
				t.Errorf("%s %s: got policy %q, handler %q, want %q, %q", c.method, c.target, policy, handler, c.policy, c.handler)
			}
		}
	})
	t.Run("spellings", func(t *testing.T) {
		all := map[string]string{"/": "all"}
		for pattern, policy := range patterns {
			all[pattern] = policy
		}
		for _, chosen := range []map[string]string{patterns, all} {
			a := s.startRouted(t, chosen)
			reached := map[string]int{}
			check := func(method, target string) {
				switch policy, handler := a.get(t, method, target); {
				case handler == "", handler == "login" && method == "GET":
				case handler != policy && !(handler == "files" && policy == "big"):
					t.Errorf("%s %s: got policy %q of handler %q", method, target, policy, handler)
				default:
					reached[handler]++
				}
			}
			for _, target := range []string{
				"/login", "//login", "/login/", "/%6cogin", "/login?x", "/LOGIN", "/./login", "/x/../login", "/login%2f", "/%2flogin",
				"//login//", "/login/.", "/login;x", "/login%00", "/l%6Fgin/?", "/x/%2e%2e/login", "/files/../login", "/files/%2e%2e/login",
				"/%2e/login", "/login%20", "/login#x", "/files%2f..%2flogin", "/users/../login", "/lo%67in%3f",
			} {
				check("POST", target)
			}
			for _, target := range []string{
				"/files/a", "/files/../login", "/files/../users/1", "/files/%2e%2e/users/1", "/files%2fa", "/files//a", "/files/../../users/1",
				"/%66iles/a", "//files/a", "/files/a%2f..%2f..%2fusers/1", "/files/big/%2e%2e/a", "/users/1", "/users/1/", "/users//1",
				"/users/..", "/users/../files/a", "/users/%2e%2e%2ffiles%2fa", "/users%2f1", "/users/files", "/users/1%2f",
			} {
				check("GET", target)
			}
			if reached["login"] == 0 || reached["files"] == 0 || reached["user"] == 0 {
				t.Errorf("the handlers were reached %v times", reached)
			}
		}
	})
	t.Run("encoded slashes and dots", func(t *testing.T) {
		a := s.startRouted(t, patterns)
		for _, target := range []string{"/files/big%2Fa", "/files/big%2fa/b", "/files/big%2F%2Fa", "/files%2Fbig%2Fa"} {
			if policy, handler := a.get(t, "GET", target); handler != "" && policy != "big" {
				t.Errorf("%s: got policy %q of handler %q, want big", target, policy, handler)
			}
		}
		for _, target := range []string{
			"/files/a/%2e%2e/big/a", "/files/.%2fbig/a", "/files/%2e/big/a", "/files/big%2F..%2Fa", "/files/a%2F%2E%2e/big/a", "/files/a/..%2fbig/a",
		} {
			if _, handler := a.get(t, "GET", target); handler != "" {
				t.Errorf("%s: reached handler %q, want 400", target, handler)
			}
		}
		for _, target := range []string{"/files/a%2e%2eb", "/files/...", "/files/a%2e", "/files/%2e%2e%2e"} {
			if policy, handler := a.get(t, "GET", target); handler != "files" || policy != "files" {
				t.Errorf("%s: got policy %q of handler %q, want files", target, policy, handler)
			}
		}
	})
	t.Run("all routes", func(t *testing.T) {
		p := newPolicies(t, patterns)
		p.all = testkit.Limiter(t, p.store, core.SlidingLog("every", core.PerHour(3)))
		user := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
		h := s.buildRoutes(Gate{p.limiters["base"], constant("k"), []gate.Option{gate.Routes(p)}}, Handlers{Login: user, User: user, Files: user})
		for i, c := range []struct {
			method, target, policy string
			status                 int
		}{
			{"GET", "/users/1", "user", 204}, {"POST", "/login", "login", 204}, {"GET", "/login", "base", 204},
			{"GET", "/users/1", "user", 429}, {"GET", "/login", "base", 429}, {"GET", "/files/a", "files", 429},
		} {
			got := record(t, h, request(c.method, c.target))
			if limits := got.Header.Get("RateLimit"); got.Status != c.status || !strings.HasPrefix(limits, `"`+c.policy+`";r=`) || !strings.Contains(limits, fmt.Sprintf(`, "every";r=%d;`, max(2-i, 0))) {
				t.Errorf("request %d: got status %d, %s, want %+v", i, got.Status, limits, c)
			}
			if got.Status == http.StatusTooManyRequests && (got.Header.Get("Retry-After") == "" || !strings.Contains(got.Body, `"violated-policies":["every"]`)) {
				t.Errorf("request %d: got Retry-After %s, %s", i, got.Header.Get("Retry-After"), got.Body)
			}
		}
	})
	t.Run("pattern of an event", func(t *testing.T) {
		var seen []gate.Event
		h := s.buildRoutes(Gate{testkit.Limiter(t, memstore.New(), core.SlidingLog("api", core.PerHour(1))), constant("k"), []gate.Option{
			gate.OnDecision(func(_ context.Context, e gate.Event) { seen = append(seen, e) }),
		}}, Handlers{User: func(http.ResponseWriter, *http.Request) {}})
		for range 2 {
			record(t, h, request("GET", "/users/1"))
		}
		if len(seen) != 2 || seen[0].Outcome != gate.Admitted || seen[0].Status != 0 || seen[1].Outcome != gate.Denied || seen[1].Status != http.StatusTooManyRequests {
			t.Fatalf("got %+v, want one admitted and one denied", seen)
		}
		for _, e := range seen {
			if !strings.Contains(e.Pattern, "/users/") {
				t.Errorf("got the pattern %q, want that of the route", e.Pattern)
			}
		}
	})
	t.Run("values of the context of an event", func(t *testing.T) {
		type key struct{}
		var seen []any
		h := s.buildRoutes(Gate{testkit.Limiter(t, memstore.New(), core.SlidingLog("api", core.PerHour(1))), constant("k"), []gate.Option{
			gate.OnDecision(func(ctx context.Context, e gate.Event) { seen = append(seen, ctx.Value(key{}), ctx.Value("none")) }),
		}}, Handlers{User: func(http.ResponseWriter, *http.Request) {}})
		for range 2 {
			r := request("GET", "/users/1")
			record(t, h, r.WithContext(context.WithValue(r.Context(), key{}, "value")))
		}
		if fmt.Sprint(seen) != "[value <nil> value <nil>]" {
			t.Errorf("got %v", seen)
		}
	})
	t.Run("pattern of the request", func(t *testing.T) { // it stays that of the framework
		var seen []string
		for _, opts := range [][]gate.Option{nil, {gate.Routes(apptest.PolicyFunc(func(r *http.Request) *core.Limiter { seen = append(seen, r.Pattern); return nil }))}} {
			var pattern string
			record(t, s.buildRoutes(Gate{s.start(setup{}).Limiter, constant("k"), opts}, Handlers{
				User: func(_ http.ResponseWriter, r *http.Request) { pattern = r.Pattern },
			}), request("GET", "/users/1"))
			seen = append(seen, pattern)
		}
		if len(seen) != 3 || seen[0] != seen[2] || !strings.Contains(seen[1], "/users/") {
			t.Errorf("got the patterns %q", seen)
		}
	})
}
