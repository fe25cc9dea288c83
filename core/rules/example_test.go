package rules_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore"
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

// A program makes a Config, for example from the rows of a database, and writes it as a file.
func ExampleConfig() {
	config := &rules.Config{Policies: map[string]rules.Policy{
		"api": {
			Rules: []rules.Rule{{
				Spec: core.Spec{
					Name: "minute", Algorithm: driver.TokenBucket, Limit: core.PerMinute(10),
					Plans: []core.Plan{{Name: "pro", Limit: core.PerMinute(100)}},
				},
			}},
			Keys:    map[string]rules.Override{"user:7": {Plan: "pro"}},
			Enforce: 100,
		},
	}}
	text, err := config.Format()
	fmt.Print(string(text))
	fmt.Println(err)
	// Output:
	// policies:
	//   api:
	//     rules:
	//       - {name: minute, algorithm: token_bucket, limit: 10/m, plans: {pro: 100/m}}
	//     keys:
	//       user:7: {plan: pro}
	// <nil>
}

// A policy is enforced for a quarter of the keys, and only counted for the others. A key that a
// percentage includes is included by every larger one.
func ExamplePolicy() {
	config, err := rules.Parse("limits.yaml", []byte(`
policies:
  api:
    enforce: 25
    rules:
      - {name: minute, algorithm: sliding_log, limit: 1/m}
`))
	if err != nil {
		log.Fatal(err)
	}
	set, err := rules.New(memstore.New(), config)
	if err != nil {
		log.Fatal(err)
	}
	api, err := set.Limiter("api")
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"user:1", "user:2"} {
		_, _ = api.Allow(context.Background(), key)
		d, _ := api.Allow(context.Background(), key)
		fmt.Println(key, d.Allowed, rules.InPercent("api", key, 25))
	}
	// Output:
	// user:1 false true
	// user:2 true false
}

// A candidate is evaluated for the same events as its rule, and never enforced.
func ExampleRule() {
	config, err := rules.Parse("limits.yaml", []byte(`
policies:
  api:
    rules:
      - name: minute
        algorithm: token_bucket
        limit: 10/m
        candidate: {algorithm: sliding_log, limit: 1/m}
`))
	if err != nil {
		log.Fatal(err)
	}
	rule := config.Policies["api"].Rules[0]
	fmt.Println(rule.Name, rule.Algorithm, rule.Limit, rule.Candidate.Algorithm, rule.Candidate.Limit)

	set, err := rules.New(memstore.New(), config)
	if err != nil {
		log.Fatal(err)
	}
	api, err := set.Limiter("api")
	if err != nil {
		log.Fatal(err)
	}
	_, _ = api.Allow(context.Background(), "user:1")
	d, _ := api.Allow(context.Background(), "user:1")
	candidate, _ := d.StateOf("api.minute.candidate")
	fmt.Println(d.Allowed, candidate.Allowed)
	// Output:
	// minute token_bucket 10/m sliding_log 1/m
	// true false
}

// An operator gives one user a larger limit until a time. With Redis, [rules.Set.Override] does it
// for all processes.
func ExampleOverride() {
	o := rules.Override{
		Limits: map[string]core.Limit{"minute": core.PerMinute(500)},
		Until:  time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	text, err := o.Format()
	fmt.Println(string(text), err)

	o, err = rules.ParseOverride("user:7", []byte(`{blocked: true}`))
	fmt.Println(o.Blocked, err)
	// Output:
	// {limits: {minute: 500/m}, until: '2027-01-01T00:00:00Z'} <nil>
	// true <nil>
}

// An editor marks the position of each error.
func ExampleError() {
	_, err := rules.Parse("limits.yaml", []byte(`
policies:
  api:
    rules:
      - {name: minute, algorithm: token_bucket, limit: 10 per minute}
`))
	var all rules.Errors
	if errors.As(err, &all) {
		for _, e := range all {
			fmt.Println(e.Line, e.Column, e.Path)
			fmt.Println(e.Excerpt)
		}
	}
	// Output:
	// 5 56 policies.api.rules[0].limit
	//       - {name: minute, algorithm: token_bucket, limit: 10 per minute}
	//                                                        ^
}

// A log of changes. The differences contain keys, which may be personal data.
func ExampleChange() {
	first, err := rules.Parse("limits.yaml", []byte(before))
	if err != nil {
		log.Fatal(err)
	}
	set, err := rules.New(memstore.New(), first, rules.OnChange(func(c rules.Change) {
		fmt.Println(c.Previous != c.Version, len(c.Diff), "differences")
	}))
	if err != nil {
		log.Fatal(err)
	}
	second, err := rules.Parse("limits.yaml", []byte(after))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(set.Apply(second))
	// Output:
	// true 2 differences
	// <nil>
}

// A table stands for a database that has a configuration in a row.
type table map[string]string

func (t table) Load(context.Context) ([]byte, error) {
	text, ok := t["limits"]
	if !ok {
		return nil, errors.New("the table has no limits")
	}
	return []byte(text), nil
}

func (table) String() string { return "table settings" }

// A configuration from elsewhere. Watch reads it every second.
func ExampleSource() {
	settings := table{"limits": before}
	config, err := rules.Load(context.Background(), settings)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(config.Name, len(config.Policies), "policy")

	_, err = rules.Load(context.Background(), table{})
	fmt.Println(err)
	// Output:
	// table settings 1 policy
	// weir: configuration of table settings: the table has no limits
}

// Configuration and overrides in Redis, for all processes. If Redis has no configuration, or is down,
// a file has the first one.
func ExampleRedisOf() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer rdb.Close()
	store := redisstore.New(rdb, "shop")
	source := rules.RedisOf(store)

	soon, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	config, err := rules.Load(soon, source)
	if err != nil {
		config, err = rules.Load(ctx, rules.File("limits.yaml"))
	}
	if err != nil {
		log.Fatal(err)
	}
	set, err := rules.New(store, config, rules.Overrides(source))
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = set.Watch(ctx, source) }()

	// An operator blocks a user for a day. Every process denies it within two seconds.
	if err := set.Block(ctx, "api", "user:7", time.Now().Add(24*time.Hour)); err != nil {
		log.Print(err)
	}
	fmt.Println(source.Stats().Blocks)
}

func ExampleParse() {
	const file = `
policies:
  api:
    rules:
      - {name: second, algorithm: token_buckets, limit: 10/s burst 20}
      - {name: hour, algorithm: sliding_log, limit: 500}
`
	_, err := rules.Parse("limits.yaml", []byte(file))
	var all rules.Errors
	if errors.As(err, &all) {
		fmt.Println(all)
		fmt.Println(all[1].Excerpt)
	}
	// Output:
	// limits.yaml:5:35: policies.api.rules[0].algorithm: "token_buckets" is no algorithm; did you mean "token_bucket"?
	// limits.yaml:6:53: policies.api.rules[1].limit: limit 500 has no period, unlike 500/s and 500/h
	//       - {name: hour, algorithm: sliding_log, limit: 500}
	//                                                     ^
}

func ExampleDiff() {
	before, err := rules.Parse("a.yaml", []byte(`
policies:
  api:
    rules:
      - {name: second, algorithm: token_bucket, limit: 10/s, plans: {gold: 100/s}}
`))
	if err != nil {
		panic(err)
	}
	after, err := rules.Parse("b.yaml", []byte(`
policies:
  api:
    rules:
      - {name: second, algorithm: token_bucket, limit: 20/s, plans: {gold: unlimited}}
      - {name: hour, algorithm: sliding_log, limit: 500/h}
`))
	if err != nil {
		panic(err)
	}
	for _, change := range rules.Diff(before, after) {
		fmt.Println(change)
	}
	// Output:
	// api.hour: added (sliding_log 500/h)
	// api.second plan gold: 100/s to unlimited
	// api.second: 10/s to 20/s
}
