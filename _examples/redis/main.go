// Redis: limits that all instances of an application share, two of them in one
// decision, and what happens when Redis is down.
//
//	go run -C _examples ./redis
//
// REDIS_URL says which Redis, redis://127.0.0.1:6379/0 by default; rediss:// is
// the same over TLS. REDIS_TIMEOUT is how long a decision may take, 100ms by
// default. Start the program twice (ADDR=127.0.0.1:8081 for the second) to see
// that both count together.
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
	// Nothing is sent before the first request, so Redis may be absent now. A
	// decision never takes longer than the timeout, whatever Redis does.
	store := redisstore.New(rdb, redisstore.Timeout(timeout))

	// 10 a minute and 500 an hour, both of which a request must satisfy. They are
	// decided together in one call of Redis: a request that one rule denies takes
	// nothing from the other.
	api := core.Must(core.New(store,
		core.TokenBucket("minute", core.PerMinute(10)),
		core.SlidingLog("hour", core.PerHour(500))))
	login := core.Must(core.New(store,
		core.SlidingLog("login", core.Per(5, 15*time.Minute))))

	ip := keyfunc.RemoteIP()

	// While Redis is down, requests are let through without a limit, and a
	// warning is logged, at most one a second.
	limitAPI := nethttplimit.New(api, ip)

	// A login without a limit is an invitation to guess passwords: here the answer
	// is 503 until Redis is back. gate.And makes the limits of the API part of the
	// same decision.
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
  # signing in: 5 in a quarter of an hour
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
	// One attempt to connect instead of five, 100 ms apart: the store tries again
	// by itself as long as there is time, and so the log shows why it failed.
	options.DialerRetries = 1
	// go-redis logs every attempt. The warnings of the middleware are enough here.
	logging.Disable()
	rdb := redis.NewClient(options)
	defer rdb.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		fmt.Printf("Redis at %s does not answer: %v\n", options.Addr, err)
		fmt.Print("Until it does, / is not limited and /login answers 503.\n\n")
	} else {
		fmt.Printf("Redis at %s answers.\n\n", options.Addr)
	}
	return demo.Serve(newHandler(rdb, timeout), try)
}
