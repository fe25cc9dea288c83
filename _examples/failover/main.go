// Failover shows the answers that a client receives while Redis is killed and started
// again. Limits are in Redis, and during an outage in the memory of each instance.
//
//	go run -C _examples ./failover
//
// REDIS_URL is the URL of Redis. If it is not set, the program starts its own
// redis-server, prints the command that kills it, and starts it again after five
// seconds. REDIS_TIMEOUT is the longest time that Redis may take for a decision, 100ms
// by default. INSTANCES is the number of instances of the application, 2 by default.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

func newStore(rdb redis.UniversalClient, timeout time.Duration, instances int) *failover.Store {
	// The same as resilient.New, which also caches denials: without the cache, each
	// request below is decided by Redis or by the memory of this instance.
	//
	// If Redis does not decide in time, the memory of this instance decides. After a
	// few such failures in a row the store stops calling Redis, and probes it in the
	// background until it accepts writes again.
	return failover.New(redisstore.New(rdb, "failover", redisstore.Timeout(timeout)), memstore.New(),
		failover.Deadline(timeout),
		// In an outage each instance counts alone, so each enforces its part of every limit.
		failover.Instances(instances),
		// The limit on passwords fails closed: logins are rejected while Redis is away.
		failover.FailClosedFor("login"),
		failover.OnChange(func(from, to failover.State, cause error) {
			if cause == nil {
				log.Printf("limits: from %v to %v", from, to)
				return
			}
			log.Printf("limits: from %v to %v, because %v", from, to, cause)
		}))
}

func newHandler(store *failover.Store) http.Handler {
	ip := keyfunc.RemoteIP()

	mux := http.NewServeMux()
	mux.Handle("GET /{$}", nethttplimit.Limit(store, core.TokenBucket("minute", core.PerMinute(20)), ip)(answer("Hello!")))
	// FailClosedFor returns an error while Redis is away. Every gate answers that error
	// with 503.
	mux.Handle("POST /login", nethttplimit.Limit(store, core.SlidingLog("login", core.Per(5, 15*time.Minute)), ip)(answer("Welcome back!")))
	mux.HandleFunc("GET /healthz", health(store))
	return mux
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, text) }
}

// health answers 200 even while memory decides: the answer reports that state, but the
// instance should stay in service.
func health(store *failover.Store) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		stats := store.Stats()
		report := map[string]any{
			"limits":            store.State().String(),
			"outages":           stats.Outages,
			"decided_in_memory": stats.Backup,
			"failed_in_redis":   stats.Failures,
		}
		if stats.Cause != nil {
			report["last_cause"] = stats.Cause.Error()
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(report)
	}
}

// restart starts the server again five seconds after it was killed.
func restart(server *redistest.Server) {
	for ; ; time.Sleep(250 * time.Millisecond) {
		if server.PID() != 0 {
			continue
		}
		log.Print("Redis has ended. This program starts it again in 5 s.")
		time.Sleep(5 * time.Second)
		if err := server.Start(); err != nil {
			log.Print(err)
			return
		}
		log.Printf("Redis runs again, as process %d.", server.PID())
	}
}

const try = `
  # 20 a minute, counted in Redis
  for i in $(seq 22); do curl -s -o /dev/null -w '%{http_code} ' http://ADDR/; done; echo
  curl -s http://ADDR/healthz
KILL
  # no request fails: this instance is one of INSTANCES, and enforces its part of the limit
  for i in $(seq 12); do curl -s -o /dev/null -w '%{http_code} ' http://ADDR/; done; echo
  curl -si http://ADDR/ | grep -i ratelimit
  # after some failures the store stops calling Redis
  until curl -s http://ADDR/healthz | grep backup; do sleep 1; done
  # the login fails closed
  curl -si -X POST http://ADDR/login
START; a second later Redis decides again
  until curl -s http://ADDR/healthz | grep primary; do sleep 1; done
  curl -si -X POST http://ADDR/login
`

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	instances, err := strconv.Atoi(cmp.Or(os.Getenv("INSTANCES"), "2"))
	if err != nil || instances < 1 {
		return fmt.Errorf("INSTANCES is not a positive number: %q", os.Getenv("INSTANCES"))
	}
	timeout, err := time.ParseDuration(cmp.Or(os.Getenv("REDIS_TIMEOUT"), "100ms"))
	if err != nil || timeout <= 0 {
		return fmt.Errorf("REDIS_TIMEOUT is not a positive duration like 100ms: %q", os.Getenv("REDIS_TIMEOUT"))
	}
	url := os.Getenv("REDIS_URL")
	kill, start := "  # now stop Redis", "  # start it again"
	if url == "" {
		server, err := redistest.StartServer()
		if err != nil {
			return fmt.Errorf("REDIS_URL is not set, and %w", err)
		}
		defer server.Close()
		go restart(server)
		url = "redis://" + server.Addr + "/0"
		kill = fmt.Sprintf("  # kill Redis (-STOP freezes it, -CONT thaws it)\n  kill -9 %d", server.PID())
		start = "  # after 5 s this program starts it again"
		fmt.Printf("Redis runs as process %d, and ends with this program. For a second instance:\n\n", server.PID())
		fmt.Printf("  REDIS_URL=%s ADDR=127.0.0.1:8081 go run -C _examples ./failover\n\n", url)
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return fmt.Errorf("REDIS_URL: %w", err)
	}
	// One attempt to connect instead of five at intervals of 100 ms: the store itself
	// retries until the deadline.
	options.DialerRetries = 1
	logging.Disable() // go-redis logs every attempt; OnChange is enough here
	rdb := redis.NewClient(options)
	defer rdb.Close()

	store := newStore(rdb, timeout, instances)
	defer store.Close()
	hints := strings.NewReplacer("KILL", kill, "START", start, "INSTANCES", strconv.Itoa(instances))
	return demo.Serve(newHandler(store), hints.Replace(try))
}
