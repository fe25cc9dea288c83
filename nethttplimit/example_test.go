package nethttplimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// One limit for each address, in memory.
func ExamplePerIP() {
	limit := nethttplimit.PerIP(core.PerMinute(1))
	h := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }))

	for _, address := range []string{"203.0.113.9:4711", "203.0.113.9:4712", "198.51.100.7:4711"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = address
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(address, w.Code)
	}
	// Output:
	// 203.0.113.9:4711 200
	// 203.0.113.9:4712 429
	// 198.51.100.7:4711 200
}

// Two requests a minute for every client, with a bucket that holds two.
func ExampleLimit() {
	store := memstore.New()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/orders", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "your orders")
	})
	server := httptest.NewServer(nethttplimit.Limit(store, core.TokenBucket("api", core.PerMinute(2)), keyfunc.RemoteIP())(mux))
	defer server.Close()

	for range 3 {
		resp, err := http.Get(server.URL + "/v1/orders")
		if err != nil {
			panic(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Println(resp.Status)
		fmt.Println("RateLimit-Policy:", resp.Header.Get("RateLimit-Policy"))
		fmt.Println("RateLimit:", resp.Header.Get("RateLimit"))
		if retry := resp.Header.Get("Retry-After"); retry != "" {
			fmt.Println("Retry-After:", retry)
		}
		fmt.Printf("%s\n", body)
	}
	// Output:
	// 200 OK
	// RateLimit-Policy: "api";q=2;w=60
	// RateLimit: "api";r=1;t=30
	// your orders
	//
	// 200 OK
	// RateLimit-Policy: "api";q=2;w=60
	// RateLimit: "api";r=0;t=30
	// your orders
	//
	// 429 Too Many Requests
	// RateLimit-Policy: "api";q=2;w=60
	// RateLimit: "api";r=0;t=30
	// Retry-After: 30
	// {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"Policy \"api\" allows 2 requests per 60 s. Retry in 30 s.","instance":"/v1/orders","violated-policies":["api"]}
}

// A page instead of the problem document.
func ExampleOnDenied() {
	store := memstore.New()
	page := nethttplimit.OnDenied(func(w http.ResponseWriter, _ *http.Request, d core.Decision) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, "<p>Too many attempts.")
		if seconds, ok := gate.RetryAfter(d); ok { // false if the client is blocked
			fmt.Fprintf(w, " Try again in %d minutes.", (seconds+59)/60)
		}
	})
	h := nethttplimit.Limit(store, core.SlidingLog("login", core.PerHour(1)), keyfunc.RemoteIP(), page)(http.NotFoundHandler())

	for range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/login", nil))
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 404 404 page not found
	//
	// 429 <p>Too many attempts. Try again in 60 minutes.
}

type userKey struct{} // under which an authentication middleware stores the user

// A redirect to the login for requests of users who have not signed in. Other rejections keep their
// status.
func ExampleOnRejected() {
	store := memstore.New()
	toLogin := nethttplimit.OnRejected(func(w http.ResponseWriter, r *http.Request, rejection *gate.Rejection) {
		if rejection.Problem.Status == http.StatusUnauthorized {
			http.Redirect(w, r, "/login", http.StatusSeeOther)
		}
	})
	h := nethttplimit.Limit(store, core.SlidingLog("api", core.PerMinute(10)), keyfunc.ContextSubject(userKey{}), toLogin)(http.NotFoundHandler())

	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/orders", nil))
	fmt.Println(w.Code, w.Header().Get("Location"))
	// Output: 303 /login
}

// A handler limits the invitations to one address of mail, which only the handler knows.
func ExampleCheck() {
	store := memstore.New()
	perInvited := core.Must(core.New(store, core.SlidingLog("invited", core.PerDay(1))))
	invite := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mail := r.FormValue("mail") // parsed and verified
		if !nethttplimit.Check(w, r, perInvited, mail, gate.FailClosed()) {
			return // the response has been written
		}
		fmt.Fprintln(w, "invited", mail)
	})

	for range 2 {
		r := httptest.NewRequest("POST", "/invite?mail=ann@example.com", nil)
		r.Header.Set("Accept", "text/plain")
		w := httptest.NewRecorder()
		invite.ServeHTTP(w, r)
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 200 invited ann@example.com
	// 429 Policy "invited" allows 1 request per 86400 s. Retry in 86400 s.
}

// A handler asks two limiters in one decision of package core, and responds as the middleware does.
func ExampleDeny() {
	store := memstore.New()
	perShop := core.Must(core.New(store, core.SlidingLog("shop", core.PerMinute(10))))
	perArticle := core.Must(core.New(store, core.SlidingLog("article", core.PerMinute(1))))
	order := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, err := core.AllowTogether(r.Context(),
			core.Ask{Limiter: perShop, Key: "shop 7", Cost: 1},
			core.Ask{Limiter: perArticle, Key: "article 42", Cost: 1})
		if err != nil || !d.Allowed {
			nethttplimit.Deny(w, r, d) // 503 after an error of the store
			return
		}
		fmt.Fprintln(w, "ordered")
	})

	for range 2 {
		r := httptest.NewRequest("POST", "/orders", nil)
		r.Header.Set("Accept", "text/plain")
		w := httptest.NewRecorder()
		order.ServeHTTP(w, r)
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 200 ordered
	// 429 Policy "article" allows 1 request per 60 s. Retry in 60 s.
}
