// Quota is an API whose customers have bought an amount of calls: 1000 a month with the plan free, and
// 1 000 000 with the plan pro. The month of a customer begins when the subscription is renewed. A rate is
// checked in the same decision. Imports leave a fifth of the month to the other calls.
//
//	go run -C _examples ./quota
//
// If REDIS_URL is set, all processes share the counts, and REDIS_TIMEOUT is the longest time that a
// decision may take, 100ms by default. Without Redis, the counts end with the process.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

type customer struct {
	plan  string    // "" is free
	since time.Time // the begin of the subscription
}

// customers and apiKeys stand for the application's database. Every decision asks for a customer, so an
// application with a database keeps customers in memory, or has their plan and since in a token.
var (
	customers = map[string]customer{ // by key
		keyfunc.UserKey("ann"): {"", time.Date(2026, time.January, 31, 15, 0, 0, 0, time.UTC)},
		keyfunc.UserKey("bob"): {"pro", time.Date(2025, time.March, 15, 9, 30, 0, 0, time.UTC)},
	}
	apiKeys = map[string]string{"key-of-ann": "ann", "key-of-bob": "bob"}
)

func newHandler(store core.Store) http.Handler {
	// Callers with the plan "import" or "pro-import" leave 20 percent of the month to all others. All
	// plans share the count of a customer.
	calls := core.Must(core.New(store, core.Quota("calls", core.Monthly(1000)).
		Plan("pro", core.Monthly(1_000_000)).
		Plan("pro-import", core.Monthly(1_000_000)).
		Headroom("import", 20).
		Headroom("pro-import", 20).
		Anchor(func(_ context.Context, key string) time.Time { return customers[key].since })))
	rate := core.Must(core.New(store, core.TokenBucket("rate", core.PerMinute(600))))

	// A request that one of the rules denies is charged to neither. In Redis, both are one call.
	limit := nethttplimit.New(rate, byAPIKey, gate.And(calls, byAPIKey, gate.Plan(plan)))
	// An import is one request of the rate, and as many calls as it has records.
	limitImport := nethttplimit.New(rate, byAPIKey, gate.And(calls, byAPIKey, gate.Plan(importPlan), gate.Cost(records)))

	mux := http.NewServeMux()
	mux.Handle("GET /{$}", limit(answer("hello")))
	mux.Handle("POST /import", limitImport(answer("imported")))
	// A look at the usage is no call.
	mux.Handle("GET /usage", nethttplimit.New(rate, byAPIKey)(usage(calls)))
	return mux
}

// byAPIKey is the key function. It stands for the authentication of your application.
func byAPIKey(_ context.Context, r *http.Request) (string, error) {
	if name, ok := apiKeys[r.Header.Get("X-API-Key")]; ok {
		return keyfunc.UserKey(name), nil
	}
	return "", keyfunc.ErrNoToken // status 401
}

// plan returns the plan of the customer. The client cannot choose it.
func plan(ctx context.Context, r *http.Request) (string, error) {
	key, err := byAPIKey(ctx, r)
	return customers[key].plan, err
}

// importPlan returns the plan of the customer for imports.
func importPlan(ctx context.Context, r *http.Request) (string, error) {
	plan, err := plan(ctx, r)
	if plan == "pro" {
		return "pro-import", err
	}
	return "import", err
}

// records returns the number of records of an import.
func records(_ context.Context, r *http.Request) int {
	n, err := strconv.Atoi(r.URL.Query().Get("records"))
	if err != nil || n < 1 {
		return 1
	}
	return n
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, text) }
}

// usage sends the calls that a customer has used. Peek charges nothing.
func usage(calls *core.Limiter) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key, err := byAPIKey(r.Context(), r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		d, err := calls.Plan(customers[key].plan).Peek(r.Context(), key)
		if err != nil {
			http.Error(w, "the usage is not known at the moment", http.StatusServiceUnavailable)
			return
		}
		s := d.State(0)
		reset := time.Now().Add(s.Window).UTC().Round(time.Second) // Window is the time until the next period
		fmt.Fprintf(w, "used %d of %d, resets at %s\n", s.Used(), s.Limit().Events, reset.Format(time.RFC3339))
	}
}

const try = `
  curl -i -H 'X-API-Key: key-of-ann' http://ADDR/
  # an import of 700 records is 700 calls; another 200 would leave less than a fifth of the month
  for n in 700 200; do curl -si -X POST -H 'X-API-Key: key-of-ann' "http://ADDR/import?records=$n" | grep -i -e http -e retry; done
  curl -s -H 'X-API-Key: key-of-ann' http://ADDR/usage
  # other calls may use all of it: 299 are left
  curl -s -o /dev/null -w '%{http_code}\n' -H 'X-API-Key: key-of-ann' "http://ADDR/?[1-300]" | sort | uniq -c
  curl -i -H 'X-API-Key: key-of-ann' http://ADDR/
  # the plan pro
  curl -s -X POST -H 'X-API-Key: key-of-bob' "http://ADDR/import?records=12000"
  curl -s -H 'X-API-Key: key-of-bob' http://ADDR/usage
`

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		return demo.Serve(newHandler(memstore.New()), try)
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return fmt.Errorf("REDIS_URL: %w", err)
	}
	timeout, err := time.ParseDuration(cmp.Or(os.Getenv("REDIS_TIMEOUT"), "100ms"))
	if err != nil {
		return fmt.Errorf("REDIS_TIMEOUT: %w", err)
	}
	rdb := redis.NewClient(options)
	defer rdb.Close()
	// While Redis is down, each of the two instances counts calls from zero, up to half of the quota, and
	// Redis does not get these counts afterwards. With resilient.FailClosedFor("calls"), a call gets 503 instead.
	store := resilient.New(rdb, "quota", resilient.Instances(2), resilient.Timeout(timeout)) // two, until Redis has told it
	defer store.Close()
	return demo.Serve(newHandler(store), try)
}
