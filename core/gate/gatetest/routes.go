package gatetest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
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

// routing is the configuration of the tests. The policy of New is "base".
func routing(routes map[string]string) *rules.Config {
	c := &rules.Config{Policies: make(map[string]rules.Policy), Routes: routes}
	for i, name := range []string{"base", "login", "user", "files", "big", "all"} {
		c.Policies[name] = rules.Policy{Enforce: 100, Rules: []rules.Rule{
			{Name: name, Algorithm: driver.TokenBucket, Limit: core.PerMinute(1000 + i)},
		}}
	}
	return c
}

var routes = map[string]string{"POST /login": "login", "/users/{id}": "user", "/files/": "files", "GET /files/big/": "big"}

// routed is an application whose limiters are chosen by a rules.Set.
type routed struct {
	http.Handler
	set     *rules.Set
	reached atomic.Pointer[string] // the handler of the last request
}

func (s *suite) startRouted(t *testing.T, config *rules.Config, opts ...gate.Option) *routed {
	t.Helper()
	set, err := rules.New(memstore.New(), config)
	testkit.Must(t, err)
	base, err := set.Limiter("base")
	testkit.Must(t, err)
	a := &routed{set: set}
	handler := func(name string) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) { a.reached.Store(&name) }
	}
	g := Gate{base, constant("k"), append(opts, gate.Routes(set))}
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
		a := s.startRouted(t, routing(routes))
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
		for pattern, policy := range routes {
			all[pattern] = policy
		}
		for _, config := range []*rules.Config{routing(routes), routing(all)} {
			a := s.startRouted(t, config)
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
		a := s.startRouted(t, routing(routes))
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
