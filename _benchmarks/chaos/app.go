package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// instances is the number of processes of the application.
const instances = 3

// The limits of a user: on the default route, and on the login route, which fails closed; and of the requests at a time.
var (
	apiLimit   = core.PerSecond(15)
	loginLimit = core.Per(10, 2*time.Second)
	atATime    = 2
)

// The limit of the default route in the RateLimit-Policy field, as Redis enforces it and
// as the memory of one instance enforces it.
const (
	redisPolicy  = `"api";q=15;w=1`
	memoryPolicy = `"api";q=5;w=1`
)

// An appConfig configures an instance. The parent process passes it in the environment.
type appConfig struct {
	Redis   []string
	Proxies map[string]string // the address of the proxy for each address of Redis
	Cluster bool
	Fault   string // breaks the application on purpose, as a test of the checks
}

// The values of appConfig.Fault.
const (
	noShare    = "share"    // in memory, each instance enforces the whole limit
	noFailover = "failover" // there is no backup
)

const appEnv = "WEIR_CHAOS_APP"

// appMain is the main function of an instance, which ends when its parent ends, for
// whatever reason.
func appMain() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	if err := serve(os.Getenv(appEnv)); err != nil {
		fmt.Fprintln(os.Stderr, "chaos: an instance:", err)
		os.Exit(1)
	}
}

func serve(config string) error {
	var c appConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	// The faults are intended, so their log is discarded; the parent reads the state of the
	// instance over HTTP.
	logging.Disable()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%v\n", l.Addr())
	return http.Serve(l, newApp(c))
}

// poolSize is the number of connections to each Redis, all of which are open: the default for 16 CPUs.
const poolSize = 160

// newApp returns the application, with limits in Redis, and in the memory of the instance
// while Redis is away.
func newApp(c appConfig) http.Handler {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, c.Proxies[addr])
	}
	var rdb redis.UniversalClient
	if c.Cluster {
		rdb = redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Redis, Dialer: dial, DialerRetries: 1, PoolSize: poolSize, MinIdleConns: poolSize / 4})
	} else {
		rdb = redis.NewClient(&redis.Options{Addr: c.Redis[0], Dialer: dial, DialerRetries: 1, PoolSize: poolSize, MinIdleConns: poolSize})
	}
	share := instances
	if c.Fault == noShare {
		share = 1
	}
	var store core.Store = redisstore.New(rdb, "bench")
	over := failover.New(store, memstore.New(), failover.Instances(share), failover.FailClosedFor("login"))
	if c.Fault != noFailover {
		store = over
	}

	mux := http.NewServeMux()
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.Handle("GET /", nethttplimit.Limit(store, core.TokenBucket("api", apiLimit), user)(ok))
	mux.Handle("POST /login", nethttplimit.Limit(store, core.SlidingLog("login", loginLimit), user, gate.FailClosed())(ok))
	mux.Handle("GET /export", nethttplimit.Limit(store, core.InFlight("export", atATime), user)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(20 * time.Millisecond)
		w.WriteHeader(http.StatusOK)
	})))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(health{
			State:      over.State(),
			Outages:    over.Stats().Outages,
			Goroutines: runtime.NumGoroutine(),
			Heap:       heap(),
		})
	})
	return mux
}

// heap returns the bytes of the objects on the heap, without stopping the process.
func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// A health is the state that an instance reports.
type health struct {
	State      failover.State
	Outages    uint64
	Goroutines int
	Heap       uint64 // bytes
}

// user returns the name in a header field, which is not verified in this test.
func user(_ context.Context, r *http.Request) (string, error) {
	if name := r.Header.Get("X-User"); name != "" {
		return name, nil
	}
	return "", keyfunc.ErrNoKey
}
