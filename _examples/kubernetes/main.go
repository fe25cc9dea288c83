// Kubernetes is the service of docs/kubernetes.md: limits in a file, which can be a mounted ConfigMap, counters in Redis
// with a backup in memory, probes without a limit, and an end that frees all that the process holds.
//
//	go run -C _examples ./kubernetes
//
// REDIS_URL is the URL of Redis, redis://127.0.0.1:6379/0 by default; without a Redis, the program runs with the backup.
// LIMITS is the file, rules/limits.yaml by default. PROXIES has the networks of trusted proxies, with spaces between them.
// INSTANCES is the smallest number of processes, 1 by default.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// newHandler returns the API behind the policy api of set, and beside it the probes. The probes do not ask Redis: while it
// is away, the process can serve, and limits in its memory.
func newHandler(set *rules.Set, proxies keyfunc.ProxySet) (http.Handler, error) {
	api, err := set.Limiter("api")
	if err != nil {
		return nil, err
	}
	limited := http.NewServeMux()
	limited.HandleFunc("GET /{$}", answer("hello"))

	mux := http.NewServeMux()
	mux.Handle("/", nethttplimit.New(api, keyfunc.XForwardedFor(proxies))(limited))
	mux.HandleFunc("GET /livez", answer("ok"))
	mux.HandleFunc("GET /readyz", answer("ok"))
	return mux, nil
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, text) }
}

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
	proxies, err := keyfunc.ParseProxies(strings.Fields(os.Getenv("PROXIES"))...)
	if err != nil {
		return fmt.Errorf("PROXIES: %w", err)
	}
	instances, err := strconv.Atoi(cmp.Or(os.Getenv("INSTANCES"), "1"))
	if err != nil || instances < 1 {
		return fmt.Errorf("INSTANCES is no positive number: %q", os.Getenv("INSTANCES"))
	}
	options.DialerRetries = 1
	logging.Disable() // go-redis logs each attempt to connect, and weir each outage
	rdb := redis.NewClient(options)
	defer rdb.Close() // third
	store := resilient.New(rdb, "shop", resilient.Instances(instances))
	defer store.Close() // second: the other processes do not count this one any more

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	file := rules.File(cmp.Or(os.Getenv("LIMITS"), "rules/limits.yaml"))
	config, err := rules.Load(ctx, file)
	if err != nil {
		return err // a pod with a broken file does not become ready, and the rollout stops
	}
	set, err := rules.New(store, config, rules.Overrides(rules.RedisOf(store)))
	if err != nil {
		return err
	}
	store.Observer().Add(set)
	go set.Watch(ctx, file) // logs errors of a changed file, and keeps the old limits
	handler, err := newHandler(set, proxies)
	if err != nil {
		return err
	}
	return demo.Serve(handler, try) // first: at SIGTERM, it calls Shutdown, which waits up to 10 s for running requests
}

const try = `
  # 10 requests a minute for each address
  curl -i http://ADDR/
  # no limit
  curl -i http://ADDR/readyz
`
