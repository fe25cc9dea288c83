// Cluster keeps limits in a Redis Cluster. Two instances of the application share
// them.
//
//	go run -C _examples ./cluster
//
// REDIS_CLUSTER lists some nodes of the Cluster, as host:port,host:port. If it is not
// set, the program starts its own three masters, which end with the program.
// REDIS_TIMEOUT is the longest time that a decision may take, 100ms by default.
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

// newHandler returns one instance of the application, with its own client and store.
// An instance has no configuration that names the others.
func newHandler(rdb *redis.ClusterClient, timeout time.Duration) http.Handler {
	store := redisstore.New(rdb, "cluster", redisstore.Timeout(timeout))

	// All rules of one user are on one master, so a decision calls one master. Users
	// are spread over the masters by the hash of their keys.
	perUser := core.Must(core.New(store,
		core.TokenBucket("minute", core.PerMinute(10)),
		core.SlidingLog("hour", core.PerHour(500))))

	// The application as a whole is one more key, possibly on another master. A
	// decision calls both masters at the same time, and undoes the charge on one if
	// the other denies. One hot key is not spread: it is as fast as one master.
	all := core.Must(core.New(store, core.TokenBucket("application", core.PerSecond(1000))))

	limit := nethttplimit.New(perUser, user, gate.And(all, keyfunc.Constant("all")))
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", limit(http.HandlerFunc(hello)))
	mux.Handle("GET /masters", masters(rdb))
	return mux
}

// user stands for your own key function, such as keyfunc.JWTSubject or one that reads
// a session: a client chooses its X-User.
var user = keyfunc.Header("X-User")

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "Hello from %v!\n", r.Context().Value(http.LocalAddrContextKey))
}

// masters answers with the number of keys on each master.
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
  # alice has 10 requests a minute, at both instances together
  for i in $(seq 6); do for addr in ADDR OTHER; do curl -s -o /dev/null -w '%{http_code} ' -H 'X-User: alice' http://$addr/; done; done; echo
  # both instances count the same requests
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

	// In production, two instances are two processes on two machines. In this demo
	// they are two servers in one process.
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
