// Failover: what a user sees while Redis is killed and returns. Limits are in Redis,
// and in the memory of each instance when Redis is away.
//
//	go run -C _examples ./failover
//
// REDIS_URL says which Redis. Without it the program starts a redis-server of its
// own, says how to kill it, and starts it again after five seconds. REDIS_TIMEOUT is
// how long Redis may take for a decision, 100ms by default, and INSTANCES how many
// instances of the application there are, 2 by default.
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
	// What Redis does not decide in time, the memory of this instance does. When that
	// happens a few times in a row, Redis is not asked any more until it accepts
	// writes again, which is found out in the background.
	return failover.New(redisstore.New(rdb, redisstore.Timeout(timeout)), memstore.New(),
		failover.Deadline(timeout),
		// The instances cannot ask each other, so each admits its part of every limit.
		failover.Instances(instances),
		// A part of a limit on passwords is not good enough: no Redis, no login.
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
	api := core.Must(core.New(store, core.TokenBucket("minute", core.PerMinute(20))))
	login := core.Must(core.New(store, core.SlidingLog("login", core.Per(5, 15*time.Minute))))
	ip := keyfunc.RemoteIP()

	mux := http.NewServeMux()
	mux.Handle("GET /{$}", nethttplimit.New(api, ip)(answer("Hello!")))
	// FailClosedFor decides nothing without Redis, which every gate answers with 503.
	mux.Handle("POST /login", nethttplimit.New(login, ip)(answer("Welcome back!")))
	mux.HandleFunc("GET /healthz", health(store))
	return mux
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, text) }
}

// health answers 200 in any case: that memory decides is worth knowing, but no
// reason to take the instance out of service.
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
		log.Print("Redis is gone. It is started again in 5 s.")
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
  # nothing fails: this is one of INSTANCES instances, and admits its part of the limit
  for i in $(seq 12); do curl -s -o /dev/null -w '%{http_code} ' http://ADDR/; done; echo
  curl -si http://ADDR/ | grep -i ratelimit
  # soon Redis is not asked any more
  until curl -s http://ADDR/healthz | grep backup; do sleep 1; done
  # the login is closed
  curl -si -X POST http://ADDR/login
START, and a second later it decides
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
	// One attempt to connect instead of five, 100 ms apart: the store tries again
	// by itself as long as there is time.
	options.DialerRetries = 1
	logging.Disable() // go-redis logs every attempt; OnChange is enough here
	rdb := redis.NewClient(options)
	defer rdb.Close()

	store := newStore(rdb, timeout, instances)
	defer store.Close()
	hints := strings.NewReplacer("KILL", kill, "START", start, "INSTANCES", strconv.Itoa(instances))
	return demo.Serve(newHandler(store), hints.Replace(try))
}
