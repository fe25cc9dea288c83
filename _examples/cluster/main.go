// Cluster: limits in a Redis Cluster, and two instances of an application that share
// them.
//
//	go run -C _examples ./cluster
//
// REDIS_CLUSTER is some of its nodes, as host:port,host:port. Without it the program
// starts three masters of its own, which end with it. REDIS_TIMEOUT is how long a
// decision may take, 100ms by default.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// newHandler is one instance of the application, with a client and a store of its
// own. Nothing here knows of other instances.
func newHandler(rdb *redis.ClusterClient, timeout time.Duration) http.Handler {
	store := redisstore.New(rdb, redisstore.Timeout(timeout))

	// All rules of one user are on one master, so they are one call of it. Users are
	// spread over the masters by their hash.
	perUser := core.Must(core.New(store,
		core.TokenBucket("minute", core.PerMinute(10)),
		core.SlidingLog("hour", core.PerHour(500))))

	// The application as a whole is one more identity, on a master of its own. Both
	// masters are asked at the same time, and what one has taken is given back if the
	// other denies. One busy key does not spread: it is as fast as one master.
	all := core.Must(core.New(store, core.TokenBucket("application", core.PerSecond(1000))))

	limit := nethttplimit.New(perUser, user, gate.And(all, application))
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", limit(http.HandlerFunc(hello)))
	mux.Handle("GET /masters", masters(rdb))
	return mux
}

// user stands for your own: keyfunc.JWTSubject, or a session.
func user(_ context.Context, r *http.Request) (string, error) {
	name := r.Header.Get("X-User")
	if name == "" {
		return "", fmt.Errorf("%w: no X-User", keyfunc.ErrNoKey)
	}
	return name, nil
}

func application(context.Context, *http.Request) (string, error) { return "all", nil }

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "Hello from %v!\n", r.Context().Value(http.LocalAddrContextKey))
}

// masters tells how many keys each of them has.
func masters(rdb *redis.ClusterClient) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var mu sync.Mutex
		err := rdb.ForEachMaster(r.Context(), func(ctx context.Context, master *redis.Client) error {
			n, err := master.DBSize(ctx).Result()
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				fmt.Fprintf(w, "%s has %d keys\n", master.Options().Addr, n)
			}
			return err
		})
		if err != nil {
			log.Print(err)
		}
	}
}

const try = `
  # alice has 10 a minute, whichever instance she asks
  for i in $(seq 6); do for addr in ADDR OTHER; do curl -s -o /dev/null -w '%{http_code} ' -H 'X-User: alice' http://$addr/; done; done; echo
  # what one instance counts, the other knows
  for addr in ADDR OTHER; do curl -si -H 'X-User: bob' http://$addr/ | grep -iE '^RateLimit:|^Hello'; done
  # users are spread over the masters
  for i in $(seq 30); do curl -s -o /dev/null -H "X-User: $i" http://ADDR/; done
  curl -s http://OTHER/masters
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
	nodes := strings.Split(os.Getenv("REDIS_CLUSTER"), ",")
	if nodes[0] == "" {
		fmt.Println("Starting a Redis Cluster of three masters.")
		cluster, err := redistest.StartCluster()
		if err != nil {
			return fmt.Errorf("REDIS_CLUSTER is not set, and %w", err)
		}
		defer cluster.Close()
		nodes = cluster.Addrs()
	}
	logging.Disable() // go-redis logs every attempt to connect
	instance := func() (http.Handler, *redis.ClusterClient) {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes, DialerRetries: 1})
		return newHandler(rdb, timeout), rdb
	}
	one, rdb := instance()
	defer rdb.Close()
	other, rdb := instance()
	defer rdb.Close()

	// Two instances are two processes, on machines of their own. Here they are two
	// servers in one process.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: other, ReadHeaderTimeout: 5 * time.Second}
	defer server.Close()
	go func() { _ = server.Serve(listener) }()
	addr := listener.Addr().String()
	fmt.Printf("The Cluster is %s, and the other instance is http://%s\n", strings.Join(nodes, " "), addr)
	return demo.Serve(one, strings.ReplaceAll(try, "OTHER", addr))
}
