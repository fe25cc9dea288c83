package nethttplimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// Two requests a minute for every client, with a bucket that holds two.
func ExampleNew() {
	store := memstore.New()
	api := core.Must(core.New(store, core.TokenBucket("api", core.PerMinute(2))))

	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/orders", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "your orders")
	})
	server := httptest.NewServer(nethttplimit.New(api, keyfunc.RemoteIP())(mux))
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
	login := core.Must(core.New(store, core.SlidingLog("login", core.PerHour(1))))
	page := nethttplimit.OnDenied(func(w http.ResponseWriter, _ *http.Request, d core.Decision) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprintf(w, "<p>Too many attempts. Try again in %.0f minutes.", d.RetryAfter.Minutes())
	})
	h := nethttplimit.New(login, keyfunc.RemoteIP(), page)(http.NotFoundHandler())

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
