package rules_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

func TestConfig_Route(t *testing.T) {
	c := routed(t, "POST /login", "/v1/", "/v1/users/{id}", "GET /v1/users/me", "example.com/v1/", "/exact/{$}", "/both", "/both/",
		"GET /files/{path...}", "CONNECT /tunnel", "/a%2fb", "/a%2fb/{id}", "/v1/{tenant}/big/", "PURGE example.com/cache/{key}")
	for _, c2 := range []struct{ target, pattern, want string }{
		// Without a pattern of the router.
		{"POST /login", "", "POST /login"},
		{"GET /login", "", ""},
		{"POST //login", "", "POST /login"},
		{"POST /./login", "", "POST /login"},
		{"POST /x/../login", "", "POST /login"},
		{"POST /../login", "", "POST /login"},
		{"POST /%6cogin", "", "POST /login"},
		{"POST /login?x", "", "POST /login"},
		{"POST /login/", "", ""},
		{"POST /LOGIN", "", ""},
		{"POST /%2flogin", "", "POST /login"},
		{"/v1", "", "/v1/"},
		{"/v1/", "", "/v1/"},
		{"//v1//x", "", "/v1/"},
		{"/v1x", "", ""},
		{"/v1/users/7", "", "/v1/users/{id}"},
		{"/v1/users/7/", "", "/v1/"},
		{"/v1/users", "", "/v1/"},
		{"HEAD /v1/users/me", "", "GET /v1/users/me"},
		{"POST /v1/users/me", "", "/v1/users/{id}"},
		{"/v1/acme/big", "", "/v1/{tenant}/big/"},
		{"/v1/acme/big/x", "", "/v1/{tenant}/big/"},
		{"example.com/v1/x", "", "example.com/v1/"},
		{"example.com:8080/v1", "", "example.com/v1/"},
		{"example.com/v1/users/7", "", "example.com/v1/"},
		{"example.com/both", "", "/both"},
		{"Example.com/v1/x", "", "/v1/"},
		{"[::1]:80/v1/x", "", "/v1/"},
		{"a:b:c/v1/x", "", "/v1/"},
		{"PURGE example.com/cache/a", "", "PURGE example.com/cache/{key}"},
		{"/exact", "", "/exact/{$}"},
		{"/exact/", "", "/exact/{$}"},
		{"/exact/x", "", ""},
		{"/both", "", "/both"},
		{"/both/", "", "/both/"},
		{"/files", "", "GET /files/{path...}"},
		{"/files/a/b", "", "GET /files/{path...}"},
		{"/a%2Fb", "", "/a%2fb"},
		{"/a/b", "", ""},
		{"CONNECT /tunnel", "", "CONNECT /tunnel"},
		{"CONNECT //x/../tunnel", "", "CONNECT /tunnel"}, // a ServeMux does not clean it, a handler may
		{"CONNECT /v1/../tunnel", "", "/v1/"},
		{"CONNECT /v1", "", "/v1/"},
		{"CONNECT example.com/v1", "", "example.com/v1/"},
		{"CONNECT ", "", ""},
		{"OPTIONS *", "", ""},
		{"", "", ""},
		// With the whole pattern, in the syntax of several routers.
		{"POST //login", "/login", "POST /login"},
		{"POST /login/", "POST /login", "POST /login"},
		{"POST /anything", "POST example.com/login", "POST /login"},
		{"GET /login", "/login", ""},
		{"/v1/users/me", "/v1/users/:id", "/v1/users/{id}"},
		{"/v1/users/me", "/v1/users/{id}", "/v1/users/{id}"},
		{"/v1/users/me", "GET /v1/users/me", "GET /v1/users/me"},
		{"/v1/users%2fme", "/v1/:name", "/v1/"},
		{"/v1/acme/big", "/v1/:tenant/big", "/v1/{tenant}/big/"},
		{"/exact/", "GET /exact/{$}", "/exact/{$}"},
		{"/both/", "/both/{$}", "/both/"},
		{"example.com/v1/x", "GET example.com/v1/x", "example.com/v1/"},
		{"/a%2fb", "/a%2Fb", "/a%2fb"},
		{"/a%2fb/7", "/a%2Fb/{x}", "/a%2fb/{id}"},
		{"/v1/users/7", "/v1/users/{id:[0-9]*}", "/v1/users/{id}"},
		{"/v1/users/7/x", "/v1/users/{id:[0-9]*/{2}}/x", "/v1/"},
		{"/v1/users/7", "/v1/{", "/v1/users/{id}"},
		{"/v1/users/7", "/v1/}", "/v1/"},
		{"/x", "/100%", ""},
		// With a pattern of a prefix.
		{"/v1/users/me", "/v1/", "GET /v1/users/me"},
		{"/v1/users/me", "/v1/*path", "GET /v1/users/me"},
		{"/v1/users/me", "/*", "GET /v1/users/me"},
		{"/v1/users/me", "/", "GET /v1/users/me"},
		{"/v1/users/me", "/v*", "GET /v1/users/me"},
		{"/%76%31/users/me", "/v1/*", "GET /v1/users/me"},
		{"/v1/users/me", "GET /{rest...}", "GET /v1/users/me"},
		{"/v1/acme/big/x", "/v1/:tenant/*", "/v1/{tenant}/big/"},
		{"/v1/acme/big/x", "/v1/{tenant}/", "/v1/{tenant}/big/"},
		{"/v1", "/v1/*", "/v1/"},
		{"/files/../both", "/files/*", "GET /files/{path...}"},
		{"/files/../v1/users/me", "/files/{path...}", "GET /files/{path...}"},
		{"/files%2fx", "/files/*path", "GET /files/{path...}"},
		{"/files/a/../../both", "/files/", "GET /files/{path...}"},
		{"/both/../v1/users/me", "/bo*", ""},
		// Without a path in the pattern.
		{"/both", "none", "/both"},
		{"/both", "*", "/both"},
	} {
		if got := c.Route(requestFor(t, c2.target, c2.pattern)); got != c2.want {
			t.Errorf("%s, pattern %q: got %q, want %q", c2.target, c2.pattern, got, c2.want)
		}
	}
	if got := c.Route(&http.Request{Pattern: "/both"}); got != "/both" {
		t.Errorf("without a URL: got %q", got)
	}
	if got := c.Route(new(http.Request)); got != "" {
		t.Errorf("an empty request: got %q", got)
	}
}

func TestSet_ForRequest(t *testing.T) {
	r := httptest.NewRequest("GET", "/a", nil)
	s, err := rules.New(memstore.New(), routed(t, "/a", "/b"))
	testkit.Must(t, err)
	p0, p1 := limiter(t, s, "p0"), limiter(t, s, "p1")
	if got := s.ForRequest(r); got != p0 {
		t.Error("got another limiter than p0")
	}
	testkit.Must(t, s.Apply(routed(t, "/b", "/a")))
	if got := s.ForRequest(r); got != p1 {
		t.Error("got another limiter than p1 after the change")
	}
	testkit.Must(t, s.Apply(routed(t, "/b")))
	if got := s.ForRequest(r); got != nil {
		t.Errorf("got the limiter %v without a route", got.Rules())
	}
	if _, err := p1.Allow(t.Context(), "k"); err != nil {
		t.Errorf("the limiter of the removed policy: %v", err)
	}
}

// The memory of a Set does not grow with the requests of a client that makes up methods.
func TestSet_ForRequest_Methods(t *testing.T) {
	s, err := rules.New(memstore.New(), routed(t, "/a"))
	testkit.Must(t, err)
	before := testkit.Heap()
	for i := range 100 {
		text := fmt.Sprintf("M%d /a?%s HTTP/1.1\r\nHost: h\r\n\r\n", i, strings.Repeat("x", 100_000))
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		testkit.Must(t, err)
		r.Pattern = "/a"
		if s.ForRequest(r) == nil {
			t.Fatal("got no limiter")
		}
	}
	if grown := testkit.Heap() - before; grown > 1<<20 {
		t.Errorf("100 requests hold %d KiB", grown>>10)
	}
	if s.ForRequest(requestFor(t, "/a", "/a")) == nil { // s is in use until here
		t.Error("got no limiter")
	}
}

func TestSet_Apply_InvalidRoutes(t *testing.T) {
	s, err := rules.New(memstore.New(), routed(t, "/a"))
	testkit.Must(t, err)
	version := s.Version()
	unknown := routed(t, "/b")
	unknown.Routes["GET /a"] = "none"
	for want, c := range map[string]*rules.Config{
		`weir: route "GET /a": there is no policy "none"`:                                  unknown,
		`weir: route "x" is an invalid pattern: parsing "x"`:                               routed(t, "/b", "x"),
		`weir: route "" is an invalid pattern: http: invalid pattern`:                      routed(t, ""),
		`weir: route "/{x}/b" conflicts with "/b/{y}": /{x}/b and /b/{y} both match some`:  routed(t, "/a", "/b/{y}", "/{x}/b"),
		`weir: route "/{y}" conflicts with "/{x}": /{y} matches the same requests as /{x}`: routed(t, "/{x}", "/{y}"),
	} {
		if err := s.Apply(c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got the error %v, want %s", err, want)
		}
		if got := c.Route(httptest.NewRequest("GET", "/b", nil)); got != "" {
			t.Errorf("%s: got the route %q of an invalid configuration", want, got)
		}
		if _, err := rules.New(memstore.New(), c); err == nil {
			t.Errorf("%s: New accepts it", want)
		}
	}
	if s.Version() != version || s.ForRequest(httptest.NewRequest("GET", "/a", nil)) != limiter(t, s, "p0") {
		t.Error("the configuration or its routes have changed")
	}
}

// Texts that a client can choose do not stay in memory.
func TestSet_ForRequest_Memory(t *testing.T) {
	s, err := rules.New(memstore.New(), routed(t, "/a"))
	testkit.Must(t, err)
	before := testkit.Heap()
	for i := range 200 {
		method, _, _ := strings.Cut(fmt.Sprint("M", i, " ", strings.Repeat("x", 100_000)), " ")
		r := requestFor(t, "/a", "/a")
		r.Method = method // a part of a large text, as in net/http
		if s.ForRequest(r) == nil {
			t.Fatalf("got no limiter for the method %s", method)
		}
	}
	if grown := testkit.Heap() - before; grown > 4<<20 {
		t.Errorf("got %d MiB more memory after 200 requests", grown>>20)
	}
	runtime.KeepAlive(s)
}

// The limiter of a request can be used while the configuration changes.
func TestSet_ForRequest_Concurrent(t *testing.T) {
	configs := []*rules.Config{routed(t, "/a", "/b"), routed(t, "/b", "/a"), routed(t, "/c")}
	s, err := rules.New(memstore.New(), configs[0])
	testkit.Must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 300 {
			if err := s.Apply(configs[i%3]); err != nil {
				t.Error(err)
			}
		}
	}()
	for r := httptest.NewRequest("GET", "/a", nil); ; {
		if l := s.ForRequest(r); l != nil {
			if _, err := l.Allow(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

// No request and no pattern of a router makes Route panic.
func FuzzConfig_Route(f *testing.F) {
	f.Add("GET /a/{x}\n/a/\n/a/b/{$}\nh/{y...}\nPOST /", "GET", "h:80", "/a/b/", "")
	f.Add("/a%2fb/{x}/c\n/{x}/{y}/d\nCONNECT /", "CONNECT", "", "/a%2Fb/../%2e%2e/d", "/a/*")
	f.Add("/\n/{a}/b\n/c/b", "HEAD", "[::1]:x", "//a/./b", "GET h/{id}/{rest...}")
	f.Add("//\n/{$}/x\n/a//b", "", "\x00", "/%", "{$}")
	f.Fuzz(func(t *testing.T, patterns, method, host, target, pattern string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			u = &url.URL{Path: target}
		}
		r := &http.Request{Method: method, Host: host, URL: u}
		c := &rules.Config{Policies: map[string]rules.Policy{"p": {}}, Routes: make(map[string]string)}
		mux := http.NewServeMux()
		for _, p := range strings.Split(patterns, "\n") {
			func() {
				defer func() { _ = recover() }() // of an invalid pattern
				mux.Handle(p, http.NotFoundHandler())
				c.Routes[p] = "p"
			}()
		}
		for _, r.Pattern = range []string{"", pattern} {
			if got := c.Route(r); got != "" && c.Routes[got] == "" {
				t.Errorf("got the unknown pattern %q", got)
			}
		}
	})
}

// A slash that is encoded leads to the more specific of two routes.
func TestConfig_Route_EncodedSlash(t *testing.T) {
	c := routed(t, "/files/", "/files/private/", "/files/{name}", "/data/", "/data/{name}/meta", "/v1/", "/exact/{$}")
	for _, c2 := range []struct{ target, pattern, want string }{
		{"/files/a", "", "/files/{name}"},
		{"/files/private%2Fx", "", "/files/private/"},
		{"/files/private%2fx", "/files/", "/files/private/"},
		{"/files/private%2Fx", "/files/*", "/files/private/"},
		{"/files/private%2Fx/y", "/files/{path...}", "/files/private/"},
		{"/files/private%2F%2Fx", "/files/", "/files/private/"},
		{"/files%2Fprivate/x", "/files/", "/files/private/"},
		{"/files%2Fprivate%2Fx", "", "/files/private/"},
		{"/data/a%2Fmeta", "/data/", "/data/{name}/meta"},
		{"/files/a%2Fb", "/files/", "/files/{name}"},
		{"/files/a%2Fb/c", "/files/", "/files/"},
		{"/v1%2Fx", "", "/v1/"},
		{"/v1%2F", "", "/v1/"},
		{"/exact%2F", "", "/exact/{$}"},
		{"/files/private%252Fx", "/files/", "/files/private/"}, // Static of Echo 4 decodes it twice
		{"/files/a%252Fb", "/files/", "/files/{name}"},
		{"/files/private%2Fx", "/files/{name}", "/files/{name}"},
		{"/x%2Fy", "/other/", ""},
	} {
		if got := c.Route(requestFor(t, c2.target, c2.pattern)); got != c2.want {
			t.Errorf("%s, pattern %q: got %q, want %q", c2.target, c2.pattern, got, c2.want)
		}
	}
}

// A ServeMux does not clean the path of a CONNECT, and its handlers may.
func TestConfig_Route_Connect(t *testing.T) {
	c := routed(t, "/v1/", "CONNECT /tunnel/", "/v1/x")
	for target, want := range map[string]string{
		"CONNECT //v1": "/v1/", "CONNECT //v1/": "/v1/", "CONNECT /v1": "/v1/", "CONNECT /v1/": "/v1/", "CONNECT /v1/x": "/v1/x",
		"CONNECT /v1//x": "/v1/x", "CONNECT /x/../v1": "/v1/", "CONNECT /v1/x/../y": "/v1/", "CONNECT /v1/y/../x": "/v1/x", "CONNECT /tunnel": "CONNECT /tunnel/", "//v1": "/v1/",
	} {
		if got := c.Route(requestFor(t, target, "")); got != want {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
}

const million = 1_000_000

// rates are events a microsecond of the policies of readings. The policy "base" has no route.
var rates = map[string]int{"private": 1, "exact": 2, "files": 5, "base": 6, "thumbs": 9, "other": 3}

// readings returns a configuration whose route below another one is stricter, or less strict.
func readings(t testing.TB) *rules.Config {
	var policies []string
	for name, rate := range rates {
		policies = append(policies, fmt.Sprintf("%s: {rules: [{name: r, algorithm: token_bucket, limit: %d/s}]}", name, rate*million))
	}
	c := parse(t, strings.Join(policies, ", "))
	c.Routes = map[string]string{"/files/": "files", "/files/private/": "private", "/files/thumbs/": "thumbs", "/files/exact": "exact", "/other/": "other"}
	return c
}

// The handler of a prefix may read a path in several ways: the strictest route applies.
func TestConfig_Route_Readings(t *testing.T) {
	c := readings(t)
	methods := []string{"GET", "HEAD", "POST", "OPTIONS", "PURGE", "get", "connect", "CONNECT"}
	for _, c2 := range []struct{ target, prefix, want string }{
		{"/files/x", "/files/*", "/files/"},
		{"/files/private/x", "/files/*", "/files/private/"},
		{"/files/thumbs/x", "/files/*", "/files/thumbs/"},
		{"http://h/files//private/x", "/files/*", "/files/private/"},
		{"/files//private/x", "/files/*", "/files/private/"},
		{"/files//private//x", "/files/*", "/files/private/"},
		{"//files/private/x", "/*", "/files/private/"},
		{"/files/./private/x", "/files/*", "/files/private/"},
		{"/files/a/../private/x", "/files/*", "/files/private/"},
		{"/other/../files/private/x", "/*", "/files/private/"},
		{"/files/private/.", "/files/*", "/files/private/"},
		{"/files/private", "/files/*", "/files/private/"},
		{"/files/thumbs/../x", "/files/*", "/files/"},
		{"/files/thumbs/../private/x", "/files/*", "/files/private/"},
		{"/files/thumbs/../exact", "/files/*", "/files/exact"},
		{"/files/private%2Fx", "/files/*", "/files/private/"},
		{"/files/%2Fprivate/x", "/files/*", "/files/private/"},
		{"/files%2F%2Fprivate%2Fx", "/*", "/files/private/"},
		{"/files/private%5Cx", "/files/*", "/files/private/"},
		{`/files/private\x`, "/files/*", "/files/private/"},
		{"/files%5cprivate/x", "/*", "/files/private/"},
		{"/files/thumbs/..%5Cprivate/x", "/files/*", "/files/private/"},
		{"/files/thumbs%5C..%5Cx", "/files/*", "/files/"},
		{"/files/thumbs%2F..%5Cx", "/files/*", "/files/"},
		{"/files/thumbs%5Cx", "/files/*", "/files/"}, // a name with a backslash, elsewhere
		{"/files/pr%69vate/x", "/files/*", "/files/private/"},
		{"/files/pr%2569vate/x", "/files/*", "/files/private/"},
		{"/files%252Fprivate/x", "/*", "/files/private/"},
		{"/files/thumbs/%252e%252e/private/x", "/files/*", "/files/private/"},
		{"/files/thumbs/%252e%252e/x", "/files/*", "/files/"},
		{"/files/thumbs%255C..%255Cx", "/files/*", "/files/"},
		{"/files/thumbs%252Fx", "/files/*", "/files/"},
		{"/files/private/%25zz", "/files/*", "/files/private/"},
		{"/files/exact", "/files/*", "/files/exact"},
		{"/files/exact/", "/files/*", "/files/exact"},
		{"/files/exact//", "/files/*", "/files/exact"},
		{"/files/exact/.", "/files/*", "/files/exact"},
		{"/files/exact%2F", "/files/*", "/files/exact"},
		{"/files/exact%5C", "/files/*", "/files/exact"},
		{"/files/exac%2574/", "/files/*", "/files/exact"},
		{"/files/exact/x", "/files/*", "/files/"},
		{"/files/private;x/y", "/files/*", "/files/"}, // no parameter
		{"/files/;/private/x", "/files/*", "/files/"},
		{"/files/PRIVATE/x", "/files/*", "/files/"},
		{"/files", "/*", "/files/"},
		{"/", "/*", ""},
		{"//", "/*", ""},
		{"/x%5C..%5Cother/y", "/*", "/other/"},
		// An exact pattern has no other reading.
		{"/files/private%5Cx", "/files/{name}", "/files/"},
		{"/files/exact/", "/files/thumbs/:name", "/files/thumbs/"},
	} {
		for _, method := range methods {
			target := c2.target
			if at, ok := strings.CutPrefix(target, "http://h"); ok && strings.ToUpper(method) == "CONNECT" {
				target = at
			}
			r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")))
			testkit.Must(t, err)
			r.Pattern = c2.prefix
			if got := c.Route(r); got != c2.want {
				t.Errorf("%s %s, pattern %s: got %q, want %q", method, c2.target, c2.prefix, got, c2.want)
			}
		}
	}
	for line, want := range map[string]string{
		"CONNECT h:443": "", "OPTIONS *": "", "CONNECT h:443/files//private/x": "/files/private/", "CONNECT http://h/files/private/x": "",
		"CONNECT /files/../other/x": "/other/", // leaves the prefix
	} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(line + " HTTP/1.1\r\nHost: h\r\n\r\n")))
		testkit.Must(t, err)
		for _, r.Pattern = range []string{"", "/*", "/files/"} {
			if r.Pattern == "/files/" && !strings.Contains(line, "files/") {
				want = "/files/"
			}
			if got := c.Route(r); got != want && (line != "CONNECT http://h/files/private/x" || r.Pattern != "/files/") {
				t.Errorf("%s, pattern %q: got %q, want %q", line, r.Pattern, got, want)
			}
		}
	}
}

// The reading with the lower rate applies.
func TestConfig_Route_Stricter(t *testing.T) {
	const limit = "{name: r, algorithm: token_bucket, limit: %s}"
	rate := func(l string) string { return "{rules: [" + fmt.Sprintf(limit, l) + "]}" }
	for name, c := range map[string]struct {
		outer, inner string
		want         string
	}{
		"lower rate":              {rate("10/s"), rate("11/m"), "/a/b/"},
		"higher rate":             {rate("10/m"), rate("10/s"), "/a/"},
		"equal rates":             {rate("60/m"), rate("1/s burst 9"), "/a/b/"},
		"lowest of two":           {rate("10/s"), "{rules: [" + fmt.Sprintf(limit, "99/s") + ", {name: d, algorithm: fixed_window, limit: 9/d}]}", "/a/b/"},
		"quota":                   {rate("10/h"), "{rules: [{name: q, algorithm: quota, limit: 240/month}]}", "/a/b/"},
		"larger quota":            {rate("10/h"), "{rules: [{name: q, algorithm: quota, limit: 300000/month}]}", "/a/"},
		"unlimited":               {rate("10/h"), rate("unlimited"), "/a/"},
		"blocked":                 {rate("10/h"), rate("blocked"), "/a/b/"},
		"events at the same time": {rate("10/h"), "{rules: [{name: i, algorithm: in_flight, limit: 9}]}", "/a/b/"},
		"pause":                   {rate("10/h"), "{rules: [{name: p, algorithm: pause}]}", "/a/"},
		"pause and a lower rate":  {rate("10/h"), "{rules: [{name: p, algorithm: pause}, " + fmt.Sprintf(limit, "1/h") + "]}", "/a/b/"},
		"shadow":                  {rate("10/h"), "{rules: [{name: r, algorithm: token_bucket, limit: 1/h, mode: shadow}]}", "/a/"},
		"off":                     {rate("10/h"), "{disabled: true, rules: [" + fmt.Sprintf(limit, "1/h") + "]}", "/a/"},
		"enforced for no key":     {rate("10/h"), "{enforce: 0, rules: [" + fmt.Sprintf(limit, "1/h") + "]}", "/a/"},
	} {
		config := parse(t, "outer: "+c.outer+", inner: "+c.inner)
		config.Routes = map[string]string{"/a/": "outer", "/a/b/": "inner"}
		for _, target := range []string{"CONNECT /a/x/../b/y", "CONNECT /a/b/../y", "/a/%2562/y", "/a/b/x%5C..%5C..%5Cy", "CONNECT /a//b/y"} {
			if got := config.Route(requestFor(t, target, "/a/*")); got != c.want {
				t.Errorf("%s: %s: got %q, want %q", name, target, got, c.want)
			}
		}
		// The limiter of New may be stricter than a policy without a limit.
		delete(config.Routes, "/a/")
		want := "/a/b/"
		if slices.Contains([]string{"unlimited", "pause", "shadow", "off", "enforced for no key"}, name) {
			want = ""
		}
		if got := config.Route(requestFor(t, "/a/%2562/y", "/a/*")); got != want {
			t.Errorf("%s, in place of New: got %q, want %q", name, got, want)
		}
	}
}
