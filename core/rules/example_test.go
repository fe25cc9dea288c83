package rules_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

const before = `
policies:
  api:
    rules:
      - {name: minute, algorithm: sliding_window, limit: 10/m}
    keys:
      "user:99": {limits: {minute: 100/m}}
`

const after = `
policies:
  api:
    rules:
      - {name: minute, algorithm: sliding_window, limit: 20/m}
`

// A limiter changes with the configuration. Usually Watch applies the text of a File.
func ExampleSet() {
	ctx := context.Background()
	config, err := rules.Parse("before.yaml", []byte(before))
	if err != nil {
		log.Fatal(err)
	}
	set, err := rules.New(memstore.New(), config, rules.OnChange(func(c rules.Change) { fmt.Println(c.Diff) }))
	if err != nil {
		log.Fatal(err)
	}
	api, err := set.Limiter("api")
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"user:1", "user:99"} {
		d, _ := api.Allow(ctx, key)
		fmt.Println(key, d)
	}
	if config, err = rules.Parse("after.yaml", []byte(after)); err == nil {
		err = set.Apply(config)
	}
	d, _ := api.Allow(ctx, "user:99")
	fmt.Println("user:99", d, err)
	// Output:
	// user:1 allowed: "api.minute" 9 of 10 left
	// user:99 allowed: "api.minute" 99 of 100 left
	// [api key user:99: removed (was minute 100/m) api.minute: 10/m to 20/m]
	// user:99 allowed: "api.minute" 18 of 20 left <nil>
}

const routes = `
policies:
  api:
    rules:
      - {name: api, algorithm: token_bucket, limit: 100/m}
  login:
    rules:
      - {name: login, algorithm: sliding_window, limit: 5/15m}
routes:
  "POST /login": login
`

// The routes of a configuration choose the policies of requests.
func ExampleSet_ForRequest() {
	config, err := rules.Parse("routes.yaml", []byte(routes))
	if err != nil {
		log.Fatal(err)
	}
	set, err := rules.New(memstore.New(), config)
	if err != nil {
		log.Fatal(err)
	}
	api, err := set.Limiter("api") // for requests without a route
	if err != nil {
		log.Fatal(err)
	}
	limit := nethttplimit.New(api, keyfunc.RemoteIP(), gate.Routes(set))
	mux := http.NewServeMux()
	hello := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	mux.Handle("/login", hello)
	mux.Handle("/orders/{id}", hello)

	for _, method := range []string{"GET", "POST"} {
		for _, path := range []string{"/login", "/orders/1"} {
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequest(method, path, nil))
			fmt.Println(method, path, w.Header().Get("RateLimit-Policy"))
		}
	}
	// Output:
	// GET /login "api";q=100;w=60
	// GET /orders/1 "api";q=100;w=60
	// POST /login "login";q=5;w=900
	// POST /orders/1 "api";q=100;w=60
}
