package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

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

// right reports whether a request has the password.
func right(r *http.Request) bool { return r.Header.Get("Password") == "right" }

// Only failed logins count, although the form redirects with the same status after a success. Every
// attempt is counted before the password is checked, so that concurrent attempts cannot exceed the
// limit, and the handler refunds a successful login.
func ExampleRefund() {
	store := memstore.New()
	login := core.Must(core.New(store, core.SlidingLog("login", core.PerHour(2))))
	signIn := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !right(r) {
			http.Redirect(w, r, "/login?failed", http.StatusSeeOther)
			return
		}
		if err := gate.Refund(r.Context()); err != nil {
			fmt.Println(err) // this login may stay counted
		}
		http.Redirect(w, r, "/welcome", http.StatusSeeOther)
	})
	h := nethttplimit.New(login, keyfunc.RemoteIP(), gate.FailClosed())(signIn)

	for _, password := range []string{"right", "right", "right", "guess", "guess", "right"} {
		w := do(h, "POST", "/login", "Password", password)
		fmt.Println(password, w.Code, w.Header().Get("Location"))
	}
	// Output:
	// right 303 /welcome
	// right 303 /welcome
	// right 303 /welcome
	// guess 303 /login?failed
	// guess 303 /login?failed
	// right 429
}

// A login forgets the failures of the user, but not those of the address: otherwise an attacker could
// log in to an own account between guesses at other accounts.
func ExampleReset() {
	store := memstore.New()
	perIP := core.Must(core.New(store, core.SlidingLog("address", core.PerHour(4))))
	perUser := core.Must(core.New(store, core.SlidingLog("user", core.PerHour(2))))
	name := keyfunc.Fold(keyfunc.Header("X-User")) // as the application looks up the user
	signIn := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !right(r) {
			http.Error(w, "wrong password", http.StatusUnauthorized)
			return
		}
		if err := errors.Join(gate.Reset(r.Context(), perUser), gate.Refund(r.Context())); err != nil {
			fmt.Println(err)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	h := nethttplimit.New(perIP, keyfunc.RemoteIP(), gate.And(perUser, name), gate.FailClosed())(signIn)

	for _, login := range []string{"ann guess", "Ann right", "ann guess", "ann guess", "ann right", "bob guess", "bob right"} {
		name, password, _ := strings.Cut(login, " ")
		w := do(h, "POST", "/login", "X-User", name, "Password", password)
		fmt.Println(login, w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// ann guess 401 "address";r=3;t=3600, "user";r=1;t=3600
	// Ann right 204 "address";r=2;t=3600, "user";r=0;t=3600
	// ann guess 401 "address";r=2;t=3600, "user";r=1;t=3600
	// ann guess 401 "address";r=1;t=3600, "user";r=0;t=3600
	// ann right 429 "address";r=1;t=3600, "user";r=0;t=3600
	// bob guess 401 "address";r=0;t=3600, "user";r=1;t=3600
	// bob right 429 "address";r=0;t=3600, "user";r=1;t=3600
}

// A connection is counted once, and each of its messages is counted for the same key.
func ExampleKey() {
	store := memstore.New()
	connections := core.Must(core.New(store, core.SlidingLog("connections", core.PerMinute(10))))
	messages := core.Must(core.New(store, core.SlidingLog("messages", core.PerMinute(2))))
	chat := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		key, ok := gate.Key(r.Context(), connections)
		if !ok {
			return // the Store could not count the connection
		}
		for _, message := range []string{"hello", "how are you?", "bye"} {
			d, err := messages.Allow(r.Context(), key)
			fmt.Println(message, d.Allowed, err)
		}
	})
	do(nethttplimit.New(connections, keyfunc.RemoteIP())(chat), "GET", "/chat")
	// Output:
	// hello true <nil>
	// how are you? true <nil>
	// bye false <nil>
}

// An address and a user are limited in one decision: if the limit of one denies a request, the
// other is not charged.
func ExampleAnd() {
	store := memstore.New()
	perIP := core.Must(core.New(store, core.SlidingLog("address", core.PerMinute(100))))
	perUser := core.Must(core.New(store, core.SlidingLog("user", core.PerMinute(1))))
	h := nethttplimit.New(perIP, keyfunc.RemoteIP(), gate.And(perUser, keyfunc.ContextSubject(userKey{})))(hello)

	// An authentication middleware stores the user who has signed in.
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
	cost := func(_ context.Context, r *http.Request) int {
		if strings.HasPrefix(r.URL.Path, "/search") {
			return 10
		}
		return 1
	}
	h := nethttplimit.Limit(store, core.TokenBucket("api", core.PerMinute(20)), keyfunc.RemoteIP(), gate.Cost(cost))(hello)

	for _, path := range []string{"/search", "/orders", "/search"} {
		w := do(h, "GET", path)
		fmt.Println(path, w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// /search 200 "api";r=10;t=30
	// /orders 200 "api";r=9;t=27
	// /search 429 "api";r=9;t=3
}

// A batch costs as many units as it has items.
func ExampleCostOfBody() {
	store := memstore.New()
	requests := core.Must(core.New(store, core.SlidingLog("requests", core.PerMinute(20))))
	items := core.Must(core.New(store, core.SlidingLog("items", core.PerMinute(100))))
	cost := func(_ context.Context, _ *http.Request, body []byte) (int, error) {
		var batch []json.RawMessage
		if err := json.Unmarshal(body, &batch); err != nil {
			return 0, &keyfunc.NoKeyError{Detail: "the body is not an array"}
		}
		return len(batch), nil
	}
	ip := keyfunc.RemoteIP()
	h := nethttplimit.New(requests, ip, gate.And(items, ip, gate.CostOfBody(1<<20, cost)))(hello)

	for _, body := range []string{"[1,2,3]", "3"} {
		r := httptest.NewRequest("POST", "/batch", strings.NewReader(body))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// 200 "requests";r=19;t=60, "items";r=97;t=60
	// 400 "requests";r=18;t=60, "items";r=96;t=60
}

// Requests for which the server has failed do not count.
func ExampleRefundIf() {
	store := memstore.New()
	reports := core.Must(core.New(store, core.SlidingLog("reports", core.PerHour(2))))
	report := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/reports/broken" {
			http.Error(w, "out of order", http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "a report")
	})
	failed := gate.RefundIf(func(status int) bool { return status >= 500 })
	h := nethttplimit.New(reports, keyfunc.RemoteIP(), failed)(report)

	for _, name := range []string{"broken", "sales", "broken", "costs", "sales"} {
		fmt.Println(name, do(h, "GET", "/reports/"+name).Code)
	}
	// Output:
	// broken 500
	// sales 200
	// broken 500
	// costs 200
	// sales 429
}

// The cost of a download is its number of bytes, which is known when it has been sent. Until then,
// the request is charged an estimate.
func ExampleSettle() {
	store := memstore.New()
	estimate := gate.Cost(func(context.Context, *http.Request) int { return 4000 })
	download := func(w http.ResponseWriter, r *http.Request) {
		sent, _ := fmt.Fprint(w, strings.Repeat("x", 1500))
		if err := gate.Settle(r.Context(), sent); err != nil {
			fmt.Println(err)
		}
	}
	h := nethttplimit.Limit(store, core.TokenBucket("bytes", core.PerDay(10_000)), keyfunc.RemoteIP(), estimate)(http.HandlerFunc(download))

	for range 3 {
		w := do(h, "GET", "/file")
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// 200 "bytes";r=6000;t=51840
	// 200 "bytes";r=4500;t=38880
	// 200 "bytes";r=3000;t=25920
}

// Requests and tokens of a language model are limited in one decision. A request costs 1 request
// and an estimated number of tokens, which the handler replaces by the number that the model
// reports.
func ExampleSettleFor() {
	store := memstore.New()
	requests := core.Must(core.New(store, core.TokenBucket("requests", core.PerDay(100))))
	tokens := core.Must(core.New(store, core.TokenBucket("tokens", core.PerDay(10_000))))
	estimate := gate.Cost(func(context.Context, *http.Request) int { return 4000 })
	ask := func(w http.ResponseWriter, r *http.Request) {
		const used = 1500 // as the model reports
		if err := gate.SettleFor(r.Context(), tokens, used); err != nil {
			fmt.Println(err)
		}
	}
	ip := keyfunc.RemoteIP()
	h := nethttplimit.New(requests, ip, gate.And(tokens, ip, estimate))(http.HandlerFunc(ask))

	for range 3 {
		w := do(h, "POST", "/ask")
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// 200 "requests";r=99;t=85536, "tokens";r=6000;t=51840
	// 200 "requests";r=98;t=84672, "tokens";r=4500;t=38880
	// 200 "requests";r=97;t=83808, "tokens";r=3000;t=25920
}

// The limit depends on the plan of the customer. A request of a blocked customer is never admitted,
// so its response has no Retry-After.
func ExamplePlan() {
	store := memstore.New()
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerMinute(10)).
		Plan("pro", core.PerMinute(100)).
		Plan("staff", core.Unlimited).
		Plan("banned", core.Blocked)))
	plans := map[string]string{"ann": "pro", "sue": "staff", "eve": "banned"} // in the database
	planOf := func(_ context.Context, r *http.Request) (string, error) { return plans[user(r)], nil }
	h := nethttplimit.New(api, keyfunc.ContextSubject(userKey{}), gate.Plan(planOf))(hello)

	// An authentication middleware stores the user who has signed in.
	signIn := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(withUser(r.Context(), user(r))))
	})
	for _, name := range []string{"bob", "ann", "sue", "eve"} {
		w := do(signIn, "GET", "/", "X-User", name)
		fmt.Printf("%s %d %s Retry-After %q\n", name, w.Code, w.Header().Get("RateLimit-Policy"), w.Header().Get("Retry-After"))
	}
	// Output:
	// bob 200 "api";q=10;w=60 Retry-After ""
	// ann 200 "api";q=100;w=60 Retry-After ""
	// sue 200  Retry-After ""
	// eve 429 "api";q=0 Retry-After ""
}

// A queue in which no request waits for more than two seconds.
func ExampleMaxDelay() {
	store := memstore.New()
	h := nethttplimit.Limit(store, core.LeakyBucket("api", core.PerMinute(1).WithBurst(10)), keyfunc.RemoteIP(), gate.MaxDelay(2*time.Second))(hello)

	for range 2 {
		w := do(h, "GET", "/")
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// 200 ""
	// 429 "58"
}

// Health checks and CORS preflight are not limited.
func ExampleSkip() {
	store := memstore.New()
	free := func(_ context.Context, r *http.Request) bool {
		return r.Method == http.MethodOptions || r.URL.Path == "/healthz"
	}
	h := nethttplimit.Limit(store, core.SlidingLog("api", core.PerMinute(1)), keyfunc.RemoteIP(), gate.Skip(free))(hello)

	for _, path := range []string{"/", "/", "/healthz"} {
		fmt.Println(path, do(h, "GET", path).Code)
	}
	// Output:
	// / 200
	// / 429
	// /healthz 200
}

// The instances of a service that call each other are not limited.
func ExampleExempt() {
	store := memstore.New()
	client := keyfunc.XForwardedFor(keyfunc.Proxies("192.0.2.0/24"))
	h := nethttplimit.Limit(store, core.SlidingLog("api", core.PerMinute(1)), client, gate.Exempt(client, "10.0.0.0/8", "2001:db8::/32"))(hello)

	for _, address := range []string{"203.0.113.9", "203.0.113.9", "10.1.2.3", "2001:db8:1::7"} {
		fmt.Println(address, do(h, "GET", "/", "X-Forwarded-For", address).Code)
	}
	// Output:
	// 203.0.113.9 200
	// 203.0.113.9 429
	// 10.1.2.3 200
	// 2001:db8:1::7 200
}

// A client that cannot succeed by waiting gets another status than 429.
func ExampleDeniedStatus() {
	store := memstore.New()
	status := gate.DeniedStatus(func(d core.Decision) int {
		switch {
		case d.Blocked():
			return http.StatusForbidden
		case d.RetryAfter == core.Never:
			return http.StatusRequestEntityTooLarge
		}
		return http.StatusTooManyRequests
	})
	size := func(_ context.Context, r *http.Request) int { return len(r.URL.Path) }
	plan := func(_ context.Context, r *http.Request) (string, error) {
		if user(r) == "mallory" { // from a list of the application
			return "banned", nil
		}
		return "", nil
	}
	h := nethttplimit.Limit(store, core.TokenBucket("api", core.PerMinute(10)).Plan("banned", core.Blocked), keyfunc.RemoteIP(), gate.Cost(size), gate.Plan(plan), status)(hello)

	for _, path := range []string{"/orders", "/orders", "/orders/2026"} {
		w := do(h, "GET", path, "Accept", "text/plain")
		fmt.Print(w.Code, " ", w.Body)
	}
	w := do(h, "GET", "/", "Accept", "text/plain", "X-User", "mallory")
	fmt.Print(w.Code, " ", w.Body)
	// Output:
	// 200 hello
	// 429 Policy "api" allows 10 requests per 60 s. Retry in 24 s.
	// 413 Policy "api" allows 10 requests per 60 s. This request costs more than the policy ever allows.
	// 403 Policy "api" allows no requests.
}

// Denied clients return in the 30 seconds after the end of the window, and not in one.
func ExampleJitter() {
	rule := core.FixedWindow("api", core.PerMinute(1)).FromFirst()
	h := nethttplimit.Limit(memstore.New(), rule, keyfunc.RemoteIP(), gate.Jitter(30*time.Second))(hello)

	do(h, "GET", "/")
	w := do(h, "GET", "/")
	seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
	fmt.Println(w.Code, w.Header().Get("RateLimit"))
	fmt.Println("61 to 90:", seconds >= 61 && seconds <= 90, err)
	// Output:
	// 429 "api";r=0;t=60
	// 61 to 90: true <nil>
}

// Both versions of the fields are sent, for clients that know only the older one.
func ExampleHeaders() {
	store := memstore.New()
	h := nethttplimit.Limit(store, core.SlidingLog("api", core.PerMinute(10)), keyfunc.RemoteIP(), gate.Headers(gate.IETFDraft, gate.XRateLimit))(hello)

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

// All gates of a program send the same fields, which describe the limit of an hour.
func ExampleOptions() {
	house := gate.Options(gate.Headers(gate.XRateLimit), gate.XRateLimitRule("hourly"))

	hourly := core.Must(core.New(memstore.New(), core.SlidingLog("hourly", core.PerHour(5000)), core.SlidingLog("minute", core.PerMinute(5))))
	search := nethttplimit.New(hourly, keyfunc.RemoteIP(), house)(hello)
	w := do(search, "GET", "/")
	fmt.Println(w.Header().Get("X-RateLimit-Limit"), w.Header().Get("X-RateLimit-Remaining"))
	// Output: 5000 4999
}

// Scripts of other origins may read the fields.
func ExampleExposeHeaders() {
	store := memstore.New()
	h := nethttplimit.Limit(store, core.SlidingLog("api", core.PerMinute(10)), keyfunc.RemoteIP(), gate.ExposeHeaders())(hello)

	fmt.Println(do(h, "GET", "/").Header().Get("Access-Control-Expose-Headers"))
	// Output: RateLimit, RateLimit-Policy, Retry-After
}

// A login is rejected while the Store cannot count the attempts.
func ExampleFailClosed() {
	h := nethttplimit.Limit(unavailable(), core.SlidingLog("login", core.PerMinute(5)), keyfunc.RemoteIP(), gate.FailClosed(), quietly)(hello)

	w := do(h, "POST", "/login", "Accept", "text/plain")
	fmt.Print(w.Code, " ", w.Body)
	// Output: 503 Retry in 1 s.
}

// The application counts the errors itself, and answers requests without a key with 403.
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
	h := nethttplimit.Limit(unavailable(), core.SlidingLog("login", core.PerMinute(5)), keyfunc.RemoteIP(), onError)(hello)

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

// Every request is logged with its outcome.
func ExampleOnDecision() {
	store := memstore.New()
	limit := nethttplimit.Limit(store, core.SlidingLog("api", core.PerMinute(1)), keyfunc.RemoteIP(), gate.OnDecision(func(_ context.Context, e gate.Event) {
		fmt.Println(e.Pattern, e.Outcome, e.Status)
	}))
	mux := http.NewServeMux()
	mux.Handle("GET /orders/{id}", limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))

	do(mux, "GET", "/orders/1")
	do(mux, "GET", "/orders/2")
	// Output:
	// GET /orders/{id} admitted 0
	// GET /orders/{id} denied 429
}

// A handler reads the remaining number of requests.
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

// Each user may run one export at a time. The place is free when the handler has returned.
func Example_sameTime() {
	store := memstore.New()
	var h http.Handler
	export := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/export/all" { // meanwhile, the same user asks for another export
			second := do(h, "GET", "/export/one", "Accept", "text/plain")
			fmt.Print(second.Code, " ", second.Body)
		}
	})
	h = nethttplimit.Limit(store, core.InFlight("exports", 1), keyfunc.RemoteIP())(export)

	first := do(h, "GET", "/export/all")
	fmt.Println(first.Code, first.Header().Get("RateLimit-Policy"))
	third := do(h, "GET", "/export/one")
	fmt.Println(third.Code, third.Header().Get("RateLimit"))
	// Output:
	// 429 Policy "exports" allows 1 request at a time.
	// 200 "exports";q=1;qu="concurrent-requests"
	// 200 "exports";r=0
}
