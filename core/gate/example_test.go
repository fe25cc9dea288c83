package gate_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// The examples use nethttplimit. The options mean the same in every adapter.

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })

// do sends a request and returns the answer.
func do(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func user(r *http.Request) string { return r.Header.Get("X-User") }

// An address and a user are limited together: a request that is denied for one
// of them is not charged to the other.
func ExampleAnd() {
	store := memstore.New()
	perIP := core.Must(core.New(store, core.SlidingLog("address", core.PerMinute(100))))
	perUser := core.Must(core.New(store, core.SlidingLog("user", core.PerMinute(1))))
	h := nethttplimit.New(perIP, keyfunc.RemoteIP(), gate.And(perUser, keyfunc.ContextSubject(userKey{})))(hello)

	// An authentication middleware stores who has signed in.
	signIn := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(withUser(r.Context(), user(r))))
	})
	for _, name := range []string{"ann", "ann", "bob"} {
		w := do(signIn, "GET", "/", "X-User", name)
		fmt.Println(name, w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// ann 200 "address";r=99;t=60, "user";r=0;t=60
	// ann 429 "address";r=99;t=60, "user";r=0;t=60
	// bob 200 "address";r=98;t=60, "user";r=0;t=60
}

// A search costs ten times as much as other requests.
func ExampleCost() {
	store := memstore.New()
	api := core.Must(core.New(store, core.TokenBucket("api", core.PerMinute(20))))
	weigh := func(r *http.Request) int {
		if strings.HasPrefix(r.URL.Path, "/search") {
			return 10
		}
		return 1
	}
	h := nethttplimit.New(api, keyfunc.RemoteIP(), gate.Cost(weigh))(hello)

	for _, path := range []string{"/search", "/orders", "/search"} {
		w := do(h, "GET", path)
		fmt.Println(path, w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// /search 200 "api";r=10;t=30
	// /orders 200 "api";r=9;t=27
	// /search 429 "api";r=9;t=3
}

// Health checks and CORS preflight are not limited.
func ExampleSkip() {
	store := memstore.New()
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerMinute(1))))
	free := func(r *http.Request) bool { return r.Method == http.MethodOptions || r.URL.Path == "/healthz" }
	h := nethttplimit.New(api, keyfunc.RemoteIP(), gate.Skip(free))(hello)

	for _, path := range []string{"/", "/", "/healthz"} {
		fmt.Println(path, do(h, "GET", path).Code)
	}
	// Output:
	// / 200
	// / 429
	// /healthz 200
}

// For clients that know the older fields, both are sent.
func ExampleHeaders() {
	store := memstore.New()
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerMinute(10))))
	h := nethttplimit.New(api, keyfunc.RemoteIP(), gate.Headers(gate.IETFDraft, gate.Legacy))(hello)

	w := do(h, "GET", "/")
	for _, name := range []string{"RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining"} {
		fmt.Println(name+":", w.Header().Get(name))
	}
	// Output:
	// RateLimit-Policy: "api";q=10;w=60
	// RateLimit: "api";r=9;t=60
	// X-RateLimit-Limit: 10
	// X-RateLimit-Remaining: 9
}

// Scripts of other origins may read the fields.
func ExampleExpose() {
	store := memstore.New()
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerMinute(10))))
	h := nethttplimit.New(api, keyfunc.RemoteIP(), gate.Expose())(hello)

	fmt.Println(do(h, "GET", "/").Header().Get("Access-Control-Expose-Headers"))
	// Output: RateLimit, RateLimit-Policy, Retry-After
}

// A login is refused while nobody can count the attempts.
func ExampleFailClosed() {
	login := core.Must(core.New(brokenStore{}, core.SlidingLog("login", core.PerMinute(5))))
	h := nethttplimit.New(login, keyfunc.RemoteIP(), gate.FailClosed(), quietly)(hello)

	w := do(h, "POST", "/login", "Accept", "text/plain")
	fmt.Print(w.Code, " ", w.Body)
	// Output: 503 Retry in 1 s.
}

// The application counts faults itself, and gives requests without an identity a
// status of its own choice.
func ExampleOnError() {
	count := map[string]int{}
	onError := gate.OnError(func(r *http.Request, err error, status int) int {
		switch {
		case r.Context().Err() != nil:
			count["gone"]++
		case errors.Is(err, keyfunc.ErrNoKey):
			count["anonymous"]++
			return http.StatusForbidden
		default:
			count["broken"]++
		}
		return status
	})
	login := core.Must(core.New(brokenStore{}, core.SlidingLog("login", core.PerMinute(5))))
	h := nethttplimit.New(login, keyfunc.RemoteIP(), onError)(hello)

	fmt.Println(do(h, "GET", "/").Code)

	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "@" // a Unix socket has no address
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Println(w.Code, count)
	// Output:
	// 200
	// 403 map[anonymous:1 broken:1]
}

// A handler saves work when little is left.
func ExampleFromContext() {
	store := memstore.New()
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerMinute(3))))
	h := nethttplimit.New(api, keyfunc.RemoteIP())(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if d, ok := gate.FromContext(r.Context()); ok {
			for _, state := range d.States() {
				fmt.Println(state.Rule.Name(), "has", state.Remaining, "left")
			}
		}
	}))

	do(h, "GET", "/")
	do(h, "GET", "/")
	// Output:
	// api has 2 left
	// api has 1 left
}
