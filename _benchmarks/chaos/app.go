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

// instances is how many there are of the application.
const instances = 3

// The limits of a user: on the default route, and on the one that fails closed.
var (
	apiLimit   = core.PerSecond(15)
	loginLimit = core.Per(10, 2*time.Second)
)

// How the default route's limit looks in the RateLimit-Policy field, as Redis and as
// the memory of one of the instances enforces it.
const (
	redisPolicy  = `"api";q=15;w=1`
	memoryPolicy = `"api";q=5;w=1`
)

// An appConfig is what an instance is told by its parent.
type appConfig struct {
	Redis   []string
	Proxies map[string]string // the address to dial instead of each of Redis
	Cluster bool
	Fault   string // what is wrong with the application, to see that the suite finds it
}

// What may be wrong with the application.
const (
	noShare    = "share"    // each instance admits the whole limit
	noFailover = "failover" // there is no backup
)

const appEnv = "WEIR_CHAOS_APP"

// appMain is the process of an instance. It ends with its parent, however that ends.
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
	// The faults are no news, and the parent asks for the rest.
	logging.Disable()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%v\n", l.Addr())
	return http.Serve(l, newApp(c))
}

// readTimeout is when the client gives up a connection on which nothing comes. Until
// then it fills a place in the pool, and with go-redis's 3 s a network that was silent
// is in use again that much later.
const readTimeout = 500 * time.Millisecond

// newApp is the application: limits in Redis, and in the memory of the instance while
// that is away.
func newApp(c appConfig) http.Handler {
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, c.Proxies[addr])
	}
	var rdb redis.UniversalClient
	if c.Cluster {
		rdb = redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Redis, Dialer: dial, DialerRetries: 1, ReadTimeout: readTimeout})
	} else {
		rdb = redis.NewClient(&redis.Options{Addr: c.Redis[0], Dialer: dial, DialerRetries: 1, ReadTimeout: readTimeout})
	}
	share := instances
	if c.Fault == noShare {
		share = 1
	}
	var store core.Store = redisstore.New(rdb)
	over := failover.New(store, memstore.New(), failover.Instances(share), failover.FailClosedFor("login"))
	if c.Fault != noFailover {
		store = over
	}
	api := core.Must(core.New(store, core.TokenBucket("api", apiLimit)))
	login := core.Must(core.New(store, core.SlidingLog("login", loginLimit)))

	mux := http.NewServeMux()
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.Handle("GET /", nethttplimit.New(api, user)(ok))
	mux.Handle("POST /login", nethttplimit.New(login, user, gate.FailClosed())(ok))
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

// heap is what the objects of this process take, without stopping it to find out.
func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// A health is what an instance says about itself.
type health struct {
	State      failover.State
	Outages    uint64
	Goroutines int
	Heap       uint64 // bytes
}

// user believes the header: this is no application for the world.
func user(_ context.Context, r *http.Request) (string, error) {
	if name := r.Header.Get("X-User"); name != "" {
		return name, nil
	}
	return "", keyfunc.ErrNoKey
}
