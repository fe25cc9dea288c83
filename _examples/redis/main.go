// Redis keeps limits that all instances of an application share, and checks two of
// them in one decision. Without Redis, one route is not limited and the other answers
// 503.
//
//	go run -C _examples ./redis
//
// REDIS_URL is the URL of Redis, redis://127.0.0.1:6379/0 by default; rediss:// uses
// TLS. REDIS_TIMEOUT is the longest time that a decision may take, 100ms by default.
// Start the program twice (ADDR=127.0.0.1:8081 for the second) to see that both
// instances count together.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

func newHandler(rdb redis.UniversalClient, timeout time.Duration) http.Handler {
	// The store calls Redis at the first request, so Redis may be absent now. A
	// decision never takes longer than the timeout.
	store := redisstore.New(rdb, "redis", redisstore.Timeout(timeout))

	// A request must satisfy both rules: 10 a minute and 500 an hour. One call of Redis
	// decides both, and a request that one rule denies is not charged to the other.
	api := core.Must(core.New(store,
		core.TokenBucket("minute", core.PerMinute(10)),
		core.SlidingLog("hour", core.PerHour(500))))
	login := core.Must(core.New(store,
		core.SlidingLog("login", core.Per(5, 15*time.Minute))))

	ip := keyfunc.RemoteIP()

	// While Redis is down, requests are admitted without a limit, and a warning is
	// logged at most once a second.
	limitAPI := nethttplimit.New(api, ip)

	// Without a limit on logins, a client could guess passwords, so the login answers
	// 503 while Redis is down. gate.And adds the limits of the API to the decision.
	limitLogin := nethttplimit.New(login, ip, gate.And(api, ip), gate.FailClosed())

	mux := http.NewServeMux()
	mux.Handle("GET /{$}", limitAPI(answer("Hello!")))
	mux.Handle("POST /login", limitLogin(answer("Welcome back!")))
	return mux
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, text) }
}

const try = `
  curl -i http://ADDR/
  # sign in: 5 in a quarter of an hour
  for i in $(seq 6); do curl -s -o /dev/null -w '%{http_code} ' -X POST http://ADDR/login; done; echo
  # 10 a minute, of which the logins have taken 5
  for i in $(seq 6); do curl -s -o /dev/null -w '%{http_code} ' http://ADDR/; done; echo
  curl -i http://ADDR/
  # then stop Redis and try again: / answers 200 without any limit, /login 503
`

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	options, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379/0"))
	if err != nil {
		return fmt.Errorf("REDIS_URL: %w", err)
	}
	timeout, err := time.ParseDuration(cmp.Or(os.Getenv("REDIS_TIMEOUT"), "100ms"))
	if err != nil || timeout <= 0 {
		return fmt.Errorf("REDIS_TIMEOUT is not a positive duration like 100ms: %q", os.Getenv("REDIS_TIMEOUT"))
	}
	// One attempt to connect instead of five at intervals of 100 ms: the store itself
	// retries until the deadline, and its log shows the cause of a failure.
	options.DialerRetries = 1
	// go-redis logs every attempt. The warnings of the middleware are enough here.
	logging.Disable()
	rdb := redis.NewClient(options)
	defer rdb.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		fmt.Printf("Redis at %s does not answer: %v\n", options.Addr, err)
		fmt.Print("Until Redis answers, / is not limited and /login answers 503.\n\n")
	} else {
		fmt.Printf("Redis at %s answers.\n\n", options.Addr)
	}
	return demo.Serve(newHandler(rdb, timeout), try)
}
