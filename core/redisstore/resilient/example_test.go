package resilient_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// A server with two limits in Redis, which shuts down in the right order.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	store := resilient.New(rdb, "shop",
		resilient.Instances(4),           // the application has four processes
		resilient.FailClosedFor("login")) // during an outage, a login answers 503
	if err := store.Check(); err != nil { // FailClosedFor names a rule that does not exist
		log.Fatal(err)
	}

	ip := keyfunc.RemoteIP()
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	mux := http.NewServeMux()
	mux.Handle("GET /", nethttplimit.Limit(store, core.TokenBucket("api", core.PerSecond(10)), ip)(hello))
	mux.Handle("POST /login", nethttplimit.Limit(store, core.SlidingLog("login", core.PerMinute(5)), ip)(hello))
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: mux}
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
	<-ctx.Done()

	// Requests use the Store, and the Store uses the client: close them in this order.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		log.Print(err)
	}
	if err := errors.Join(store.Close(), rdb.Close()); err != nil {
		log.Print(err)
	}
}

// The same limiters run in memory, for example in tests, and in Redis.
func Example_memory() {
	open := func(url string) (core.Store, error) {
		if url == "" {
			return memstore.New(), nil
		}
		options, err := redis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		return resilient.New(redis.NewClient(options), "shop"), nil
	}

	store, err := open("") // usually the value of an environment variable
	if err != nil {
		fmt.Println(err)
		return
	}
	api := core.Must(core.New(store, core.SlidingWindow("api", core.PerMinute(100))))
	d, err := api.Allow(context.Background(), "alice")
	fmt.Println(d, err)
	// Output: allowed: "api" 99 of 100 left <nil>
}

// down returns a client of a Redis that cannot be reached.
func down() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1, Dialer: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("connection refused")
	}})
}

// A process that starts in an outage enforces a quarter of the limit in its memory.
func ExampleInstances() {
	rdb := down()
	defer rdb.Close()
	store := resilient.New(rdb, "shop", resilient.Instances(4))
	defer store.Close()
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerHour(100))))

	d, err := api.Allow(context.Background(), "203.0.113.7")
	fmt.Println(d.State(0).Remaining, "left of", d.State(0).Limit(), err)
	// Output: 24 left of 25/h <nil>
}

// During an outage, logins are not decided. Every gate responds with 503.
func ExampleFailClosedFor() {
	rdb := down()
	defer rdb.Close()
	store := resilient.New(rdb, "shop", resilient.Instances(4), resilient.FailClosedFor("login"))
	defer store.Close()
	login := core.Must(core.New(store, core.SlidingLog("login", core.PerHour(5))))

	_, err := login.Allow(context.Background(), "203.0.113.7")
	fmt.Println(errors.Is(err, core.ErrUnavailable), store.Check())
	// Output: true <nil>
}

// A health check reports which store decides. An outage of Redis is no reason to restart the
// process, because its memory decides.
func ExampleStore() {
	rdb := down()
	defer rdb.Close()
	store := resilient.New(rdb, "shop", resilient.Instances(4))
	defer store.Close()
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerHour(100))))

	for range 10 {
		_, _ = api.Allow(context.Background(), "203.0.113.7")
	}
	fmt.Println(store.State())
	// Output: backup
}

// After an outage, the counts tell how often it was the memory that decided.
func ExampleStats() {
	rdb := down()
	defer rdb.Close()
	store := resilient.New(rdb, "shop", resilient.Instances(4))
	defer store.Close()
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerHour(80))))

	for range 30 {
		_, _ = api.Allow(context.Background(), "203.0.113.7")
	}
	stats := store.Stats()
	fmt.Println(stats.Failover.Outages, "outage, caused by", stats.Failover.Cause)
	fmt.Println(stats.Failover.Backup, "decisions by the backup,", stats.Denycache.Hits, "by the cache of denials")
	// Output:
	// 1 outage, caused by weir: store unavailable: redis: connection refused
	// 20 decisions by the backup, 10 by the cache of denials
}
