package gatetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/keyfunc"
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
	t.Run("pattern of the request", func(t *testing.T) { // it stays that of the framework
		var seen []string
		for _, opts := range [][]gate.Option{nil, {gate.Routes(tableFunc(func(r *http.Request) *core.Limiter { seen = append(seen, r.Pattern); return nil }))}} {
			var pattern string
			record(t, s.buildRoutes(Gate{s.start(setup{}).limiter, constant("k"), opts}, Handlers{
				User: func(_ http.ResponseWriter, r *http.Request) { pattern = r.Pattern },
			}), request("GET", "/users/1"))
			seen = append(seen, pattern)
		}
		if len(seen) != 3 || seen[0] != seen[2] || !strings.Contains(seen[1], "/users/") {
			t.Errorf("got the patterns %q", seen)
		}
	})
	t.Run("changed", func(t *testing.T) {
		a := s.startRouted(t, routing(routes))
		configs := []*rules.Config{routing(map[string]string{"/users/{id}": "user"}), routing(map[string]string{"/users/": "all"}), routing(nil)}
		var seen [3]atomic.Bool
		atOnce(4, func() {
			for i := range 200 {
				if err := a.set.Apply(configs[i%3]); err != nil {
					t.Error(err)
				}
				w := record(t, a, request("GET", "/users/1"))
				name, _, _ := strings.Cut(w.header.Get("RateLimit-Policy"), ";")
				policy := slices.Index([]string{`"user"`, `"all"`, `"base"`}, name)
				if policy < 0 {
					t.Errorf("got status %d and policy %q", w.status, name)
					return
				}
				seen[policy].Store(true)
			}
		})
		for i := range seen {
			if !seen[i].Load() {
				t.Errorf("no request had the policy of configuration %d", i)
			}
		}
	})
}

// A tableFunc is a gate.Policy.
type tableFunc func(r *http.Request) *core.Limiter

func (f tableFunc) ForRequest(r *http.Request) *core.Limiter { return f(r) }

// by returns a table of limiters by the header field X-Policy.
func by(limiters map[string]*core.Limiter) gate.Option {
	return gate.Routes(tableFunc(func(r *http.Request) *core.Limiter { return limiters[r.Header.Get("X-Policy")] }))
}

// testTable tests gate.Routes with any Policy.
func (s *suite) testTable(t *testing.T) {
	ask := func(policy, key string) *http.Request {
		r := request("GET", "/v1/orders")
		r.Header.Set("X-Policy", policy)
		if key != "" {
			r.Header.Set("X-Key", key)
		}
		return r
	}
	store := memory()
	limit := func(name string, n int) *core.Limiter {
		return core.Must(core.New(store, core.SlidingLog(name, core.PerMinute(n)).Plan("pro", core.PerMinute(10*n))))
	}
	t.Run("options", func(t *testing.T) {
		base := core.Must(core.New(store, core.SlidingLog("base", core.PerMinute(5)))) // without plans
		login, and := limit("login", 2), limit("and", 9)
		for name, c := range map[string]struct {
			opts  []gate.Option
			login string
			base  string
		}{
			"none":                              {nil, `"login";r=1;t=60`, `"base";r=4;t=60`},
			"And":                               {[]gate.Option{gate.And(and, constant("x"))}, `"login";r=1;t=60, "and";r=8;t=60`, `"base";r=4;t=60, "and";r=8;t=60`},
			"Plan":                              {[]gate.Option{gate.Plan(constant("pro"))}, `"login";r=19;t=60`, `"base";r=4;t=60`},
			"Cost":                              {[]gate.Option{costs(2)}, `"login";r=0;t=60`, `"base";r=3;t=60`},
			"refund":                            {[]gate.Option{refundAll}, `"login";r=1;t=60`, `"base";r=4;t=60`},
			"skipped":                           {[]gate.Option{skipped, gate.Routes(tableFunc(func(*http.Request) *core.Limiter { panic("called") }))}, "", ""},
			"And with the same limiter and key": {[]gate.Option{gate.And(login, constant("k"))}, `"login";r=1;t=60`, `"base";r=4;t=60, "login";r=1;t=60`},
		} {
			for _, l := range []*core.Limiter{base, login, and} {
				for _, key := range []string{"k", "x"} {
					_, err := l.Reset(t.Context(), key)
					testkit.Must(t, err)
				}
			}
			h := s.build(base, constant("k"), append([]gate.Option{by(map[string]*core.Limiter{"login": login})}, c.opts...), says("ok"))
			got := exchange(t, h, ask("login", "")).header.Get("RateLimit")
			if n := taken(t, base, "k"); got != c.login || n != 0 {
				t.Errorf("%s: got RateLimit %s and %d events of the limiter of New, want %s and 0", name, got, n, c.login)
			}
			for _, l := range []*core.Limiter{login, and} {
				for _, key := range []string{"k", "x"} {
					_, err := l.Reset(t.Context(), key)
					testkit.Must(t, err)
				}
			}
			if got := exchange(t, h, ask("", "")).header.Get("RateLimit"); got != c.base {
				t.Errorf("%s, no route: got RateLimit %s, want %s", name, got, c.base)
			}
		}
	})
	t.Run("denied", func(t *testing.T) {
		base, login := limit("denied base", 1), limit("denied login", 1)
		h := s.build(base, constant("k"), []gate.Option{by(map[string]*core.Limiter{"login": login})}, says("ok"))
		for i, c := range []struct {
			policy, fields, violated string
			status                   int
		}{
			{"login", `"denied login";q=1;w=60`, "", 200},
			{"login", `"denied login";q=1;w=60`, `"violated-policies":["denied login"]`, 429},
			{"", `"denied base";q=1;w=60`, "", 200},
			{"", `"denied base";q=1;w=60`, `"violated-policies":["denied base"]`, 429},
		} {
			if got := record(t, h, ask(c.policy, "")); got.status != c.status || got.header.Get("RateLimit-Policy") != c.fields || !strings.Contains(got.body, c.violated) {
				t.Errorf("request %d: got %d, %s, %s, want %+v", i, got.status, got.header.Get("RateLimit-Policy"), got.body, c)
			}
		}
	})
	t.Run("settle", func(t *testing.T) {
		base, login, and := limit("settle base", 9), limit("settle login", 9), limit("settle and", 9)
		h := s.build(base, constant("k"), []gate.Option{by(map[string]*core.Limiter{"login": login}), gate.And(and, constant("x"))},
			func(w http.ResponseWriter, r *http.Request) {
				err := errors.Join(gate.SettleFor(r.Context(), login.Plan("pro"), 5), gate.SettleFor(r.Context(), and, 3))
				fmt.Fprint(w, err, errors.Is(gate.SettleFor(r.Context(), base, 7), gate.ErrNotAdmitted))
			})
		got := exchange(t, h, ask("login", ""))
		if l, a, b := taken(t, login, "k"), taken(t, and, "x"), taken(t, base, "k"); got.body != "<nil> true" || l != 5 || a != 3 || b != 0 {
			t.Errorf("got %s and %d, %d and %d events, want 5, 3 and 0", got.body, l, a, b)
		}
	})
	t.Run("another store", func(t *testing.T) {
		other := core.Must(core.New(memory(), core.SlidingLog("elsewhere", core.PerMinute(9))))
		base := limit("of New", 9)
		var failed error
		onError := gate.OnError(func(_ *http.Request, err error, status int) int { failed = err; return status })
		for name, c := range map[string]struct {
			and    []gate.Option
			status int
		}{"alone": {nil, 200}, "And": {[]gate.Option{gate.And(base, constant("x"))}, 500}} {
			failed = nil
			h := s.build(base, constant("k"), append(c.and, onError, by(map[string]*core.Limiter{"login": other})), says("ok"))
			if got := exchange(t, h, ask("login", "")); got.status != c.status || (c.status == 500) != errors.Is(failed, core.ErrInvalidAsk) {
				t.Errorf("%s: got status %d, error %v, want %d", name, got.status, failed, c.status)
			}
		}
	})
	// A key is exhausted for the limiter that has denied it, also if another And has that limiter.
	t.Run("exhausted keys", func(t *testing.T) {
		base, login, last := limit("exhausted base", 1), limit("exhausted login", 1), limit("exhausted last", 100)
		verified := 0
		token := func(_ context.Context, r *http.Request) (string, error) {
			verified++
			return cmp.Or(r.Header.Get("X-Key"), "bad"), map[bool]error{true: keyfunc.ErrNoToken}[r.Header.Get("X-Key") == ""]
		}
		h := s.build(base, constant("k"), []gate.Option{by(map[string]*core.Limiter{"login": login, "last": last}), gate.And(last, token), quiet}, says("ok"))
		for i, c := range []struct {
			policy, key      string
			status, verified int
		}{
			{"login", "", 401, 1}, // exhausts k
			{"login", "", 429, 1},
			{"login", "a", 429, 1},
			{"", "a", 200, 2},
			{"", "", 429, 3}, // base has no exhausted key yet
			{"", "", 429, 3},
			{"login", "a", 429, 3},
			{"last", "a", 200, 4},
		} {
			if got := record(t, h, ask(c.policy, c.key)); got.status != c.status || verified != c.verified {
				t.Errorf("request %d: got status %d and %d tokens verified, want %+v", i, got.status, verified, c)
			}
		}
	})
	t.Run("construction", func(t *testing.T) {
		for name, f := range map[string]func(){
			"nil": func() { gate.Routes(nil) }, "nil function": func() { gate.Routes(tableFunc(nil)) },
		} {
			if got := fmt.Sprint(caught(f)); got != "gate: Routes: policy is nil" {
				t.Errorf("%s: panicked with %v", name, got)
			}
		}
	})
}
