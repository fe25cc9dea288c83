// Busy shares a limit of thousands of requests between all instances, with one round
// trip to Redis for dozens of requests. A client over its own limit causes no round
// trip.
//
//	go run -C _examples ./busy
//
// REDIS_URL is the URL of Redis. If it is not set, the program starts its own
// redis-server, which ends with the program. REDIS_TIMEOUT is the longest time that
// Redis may take for a decision, 100ms by default.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// stores holds a lease over a denycache over Redis. Each store passes the decisions
// that it cannot make to the next one.
type stores struct {
	leased *lease.Store     // takes bundles of tokens of large limits, and spends them in memory
	denied *denycache.Store // remembers denials until the key may be admitted again
}

func newStores(rdb redis.UniversalClient, timeout time.Duration) stores {
	denied := denycache.New(redisstore.New(rdb, "busy", redisstore.Timeout(timeout)))
	return stores{lease.New(denied), denied}
}

func newHandler(s stores) http.Handler {
	store := s.leased
	// The limit of all clients together, at all instances. It is large, so its tokens
	// are leased.
	all := core.Must(core.New(store, core.TokenBucket("all", core.PerMinute(6000))))
	// The limit of each client. It is small, so every request calls Redis until one is
	// denied.
	each := core.Must(core.New(store, core.SlidingLog("each", core.PerMinute(20))))

	one := keyfunc.Constant("all")
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", nethttplimit.New(all, one)(http.HandlerFunc(hello)))
	// Both limits are checked in one decision, so a client that is over its own limit
	// does not consume the common one.
	mux.Handle("GET /search", nethttplimit.New(each, keyfunc.RemoteIP(), gate.And(all, one))(http.HandlerFunc(hello)))
	mux.HandleFunc("GET /stats", stats(s))
	return mux
}

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "Hello!") }

func stats(s stores) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		leased, denied := s.leased.Stats(), s.denied.Stats()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"leased_tokens": leased.Held, "decided_by_lease": leased.Hits,
			"decided_by_denycache": denied.Hits, "calls_of_redis": denied.Misses,
		})
	}
}

const try = `
  # a thousand requests, and the number of calls of Redis
  curl -s -o /dev/null -w '%{http_code}\n' 'http://ADDR/?[1-1000]' | sort | uniq -c
  curl -s http://ADDR/stats
  # a client over its own limit: denials cause no call of Redis, and do not consume the common limit
  curl -s -o /dev/null -w '%{http_code}\n' 'http://ADDR/search?[1-200]' | sort | uniq -c
  curl -s http://ADDR/stats
  # the rest of the common 6000, at this instance or another
  curl -si http://ADDR/ | grep -i ratelimit
`

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	timeout, err := time.ParseDuration(cmp.Or(os.Getenv("REDIS_TIMEOUT"), "100ms"))
	if err != nil || timeout <= 0 {
		return fmt.Errorf("REDIS_TIMEOUT is not a positive duration like 100ms: %q", os.Getenv("REDIS_TIMEOUT"))
	}
	url := os.Getenv("REDIS_URL")
	if url == "" {
		server, err := redistest.StartServer()
		if err != nil {
			return fmt.Errorf("REDIS_URL is not set, and %w", err)
		}
		defer server.Close()
		url = "redis://" + server.Addr + "/0"
		fmt.Printf("For a second instance:\n\n  REDIS_URL=%s ADDR=127.0.0.1:8081 go run -C _examples ./busy\n\n", url)
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return fmt.Errorf("REDIS_URL: %w", err)
	}
	options.DialerRetries = 1
	logging.Disable() // go-redis logs every attempt to connect
	rdb := redis.NewClient(options)
	defer rdb.Close()

	s := newStores(rdb, timeout)
	err = demo.Serve(newHandler(s), try)
	return errors.Join(err, s.leased.Close())
}
