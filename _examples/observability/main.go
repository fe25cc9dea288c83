// Observability shows the metrics and logs of limits: a Prometheus configuration with
// alerts (prometheus.yml, alerts.yml), a dashboard for Grafana (dashboard.json), a page for
// operators, and the service that they observe. The service has three rules in Redis, and in the memory of
// this process during an outage of Redis, and a shadow rule, which is evaluated and
// reported, and denies no request.
//
//	PASSWORD=$(openssl rand -hex 16) go run -C _examples ./observability
//
// REDIS_URL is the URL of Redis, redis://127.0.0.1:6379/0 by default. Redis may be
// absent at the start. REDIS_TIMEOUT is the longest time that Redis may take for a
// decision, 100ms by default. PASSWORD opens the page for operators. For the alerts, run Prometheus in a second terminal:
//
//	prometheus --config.file=_examples/observability/prometheus.yml --storage.tsdb.path=/tmp/weir
//
// Its page http://127.0.0.1:9090/alerts lists them. To see the dashboard, import
// dashboard.json in Grafana, and choose that Prometheus as its data source.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/inspect"
	"github.com/weir-go/weir/core/observe"
	weirprometheus "github.com/weir-go/weir/core/observe/prometheus"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

func newStore(rdb redis.UniversalClient, timeout time.Duration) *resilient.Store {
	return resilient.New(rdb, "observability",
		resilient.Timeout(timeout),
		resilient.FailClosedFor("login"),
		// Denials, denials of shadow rules and outages are logged. At most one denial a
		// second is logged for each rule and plan, so that a flood cannot fill the log.
		resilient.Observe(observe.Logger(slog.Default()), observe.TopKeys(10), observe.Near(0.8)))
}

func newHandler(store *resilient.Store) http.Handler {
	page := core.Must(core.New(store, core.TokenBucket("page", core.PerMinute(10))))
	api := core.Must(core.New(store,
		core.SlidingWindow("api", core.PerMinute(20)).Soft(50), // admits 30, of which 10 are counted as soft
		// Shall the limit be 12 a minute? The metrics show how many requests it would
		// deny. To enforce it, remove Shadow.
		core.SlidingWindow("trial", core.PerMinute(12)).Shadow()))
	login := core.Must(core.New(store, core.SlidingLog("login", core.Per(5, 15*time.Minute))))

	// The collector has the figures of all rules and parts of the store. The store does
	// not know routes, so this counter adds them.
	prometheus.MustRegister(weirprometheus.NewCollector(store.Observer()))
	routes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "example_requests_total", Help: "Requests by route and outcome at its gate.",
	}, []string{"route", "outcome"})
	prometheus.MustRegister(routes)
	count := gate.OnDecision(func(_ context.Context, e gate.Event) {
		// Use the pattern, not the path of the request: clients choose paths, and each
		// new value of a label is a new series.
		routes.WithLabelValues(e.Pattern, e.Outcome.String()).Inc()
	})

	ip := keyfunc.RemoteIP()
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", nethttplimit.New(page, ip, count)(answer("Hello!")))
	mux.Handle("GET /api", nethttplimit.New(api, ip, count)(answer("42")))
	mux.Handle("POST /login", nethttplimit.New(login, ip, count)(answer("Welcome back!")))

	// These are for operators. A service on the internet has them on an address that
	// clients cannot reach.
	mux.Handle("GET /metrics", promhttp.Handler())
	mux.Handle("/debug/limits", inspect.New(demo.Operator, store.Observer(), inspect.Limiters(page, api, login)))
	return mux
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, text) }
}

const try = `
  # 10 a minute for each address
  for i in $(seq 12); do curl -s -o /dev/null -w '%{http_code} ' http://ADDR/; done; echo
  # 20 a minute, and 10 more beyond the soft limit
  for i in $(seq 32); do curl -s -o /dev/null -w '%{http_code} ' http://ADDR/api; done; echo
  # decisions, by the rule that determined them; those that the shadow rule would have denied
  curl -s http://ADDR/metrics | grep ^weir_requests_total
  curl -s http://ADDR/metrics | grep shadow_denied
  # the same by route, and the store that decides: 0 is Redis, 1 the memory of this process
  curl -s http://ADDR/metrics | grep -e ^example_ -e ^weir_failover_state
  # the page for operators, with the password in PASSWORD: http://ADDR/debug/limits
  curl -s -u ":$PASSWORD" 'http://ADDR/debug/limits?format=json' -d key=127.0.0.1
  # then stop Redis, repeat these lines, and sign in: that limit has no backup, so it answers 503
  curl -s -o /dev/null -w '%{http_code}\n' -X POST http://ADDR/login
`

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	options, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379/0"))
	if err != nil {
		return fmt.Errorf("REDIS_URL: %w", err)
	}
	timeout, err := time.ParseDuration(cmp.Or(os.Getenv("REDIS_TIMEOUT"), "100ms"))
	if err != nil || timeout <= 0 {
		return fmt.Errorf("REDIS_TIMEOUT is not a positive duration like 100ms: %q", os.Getenv("REDIS_TIMEOUT"))
	}
	// One attempt to connect instead of five at intervals of 100 ms: the store itself
	// retries until the deadline.
	options.DialerRetries = 1
	logging.Disable() // go-redis logs every attempt; the log of the store has each outage once
	rdb := redis.NewClient(options)
	defer rdb.Close()

	store := newStore(rdb, timeout)
	defer store.Close()
	return demo.Serve(newHandler(store), try)
}
