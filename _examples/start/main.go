// Start is the program of docs/start.md: an API for notes with limits for each address, each user and
// each plan, a login, Redis with a backup in memory, metrics, a page for operators, and limits in a file.
//
//	PASSWORD=$(openssl rand -hex 16) go run -C _examples ./start
//
// REDIS_ADDR is the address of Redis, 127.0.0.1:6379 by default; without a Redis, the program runs with the
// backup. JWKS_URL has the public keys of the identity provider and ISSUER its name; without them, the program
// has a provider of its own, and prints tokens of two users. LIMITS is the file with the limits of users,
// start/limits.yaml by default. PASSWORD opens the page for operators.
package main

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	jwks "github.com/MicahParks/keyfunc/v3" // its name is that of the package of weir, too
	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"golang.org/x/time/rate"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/inspect"
	"github.com/weir-go/weir/core/observe"
	weirprometheus "github.com/weir-go/weir/core/observe/prometheus"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

func newHandler(store *resilient.Store, set *rules.Set, publicKeys jwt.Keyfunc, issuer string) http.Handler {
	ip := keyfunc.XForwardedFor(keyfunc.Proxies("127.0.0.1", "::1"))
	perIP := core.Must(core.New(store, core.TokenBucket("ip", core.PerMinute(300))))

	tokens := keyfunc.NewJWT(publicKeys, []string{"RS256"},
		keyfunc.Issuer(issuer), keyfunc.Audience("notes"))
	perUser := core.Must(set.Limiter("notes"))
	limit := nethttplimit.New(perIP, ip,
		gate.And(perUser, tokens.Subject()),
		gate.Plan(tokens.Claim("plan")))

	loginIP := core.Must(core.New(store, core.SlidingLog("login-ip", core.PerHour(30))))
	loginUser := core.Must(core.New(store, core.SlidingLog("login-user", core.PerHour(10))))
	name := keyfunc.Fold(keyfunc.FormValue("user"))
	guesses := nethttplimit.New(loginIP, ip, gate.And(loginUser, name),
		gate.FailClosed(), // 503 if it cannot be decided
		gate.Headers())    // no fields that tell how many guesses are left
	login := func(w http.ResponseWriter, r *http.Request) {
		if !valid(r.PostFormValue("user"), r.PostFormValue("password")) {
			http.Error(w, "no such user, or another password", http.StatusUnauthorized)
			return
		}
		if err := errors.Join(gate.Reset(r.Context(), loginUser), gate.Refund(r.Context())); err != nil {
			slog.Warn("a login may count as a guess", "error", err)
		}
		fmt.Fprintln(w, "welcome")
	}

	mux := http.NewServeMux()
	mux.Handle("GET /notes", limit(http.HandlerFunc(notes)))
	mux.Handle("POST /login", guesses(http.HandlerFunc(login)))

	figures := prometheus.NewRegistry()
	figures.MustRegister(weirprometheus.NewCollector(store.Observer()))
	mux.Handle("GET /metrics", promhttp.HandlerFor(figures, promhttp.HandlerOpts{}))
	password := os.Getenv("PASSWORD") // of operators: if it is empty, the page is closed
	operator := func(r *http.Request) bool {
		_, given, _ := r.BasicAuth()
		return password != "" && subtle.ConstantTimeCompare([]byte(given), []byte(password)) == 1
	}
	mux.Handle("/debug/limits", inspect.New(operator, store.Observer(),
		inspect.Limiters(perIP, loginIP, loginUser), inspect.Rules(set)))
	return mux
}

func notes(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "remember the milk") }

// valid stands for your own check, which uses a slow password hash, for unknown users, too.
func valid(user, password string) bool { return user == "ann" && password == "correct horse" }

func newStore(rdb *redis.Client) *resilient.Store {
	return resilient.New(rdb, "notes", resilient.Observe(observe.TopKeys(10)))
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	logging.Disable() // go-redis logs each attempt to connect, and weir each outage
	jwksURL, issuer, try := os.Getenv("JWKS_URL"), os.Getenv("ISSUER"), tryProvider
	if jwksURL == "" {
		p, err := newProvider()
		if err != nil {
			return err
		}
		defer p.close()
		jwksURL, issuer, try = p.url, p.url, fmt.Sprintf(tryTokens, p.token("user-1", ""), p.token("user-2", "pro"))
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	keys, err := jwks.NewDefaultOverrideCtx(ctx, []string{jwksURL}, jwks.Override{
		HTTPTimeout:       5 * time.Second,
		RefreshUnknownKID: rate.NewLimiter(rate.Every(10*time.Second), 1), // a new key is fetched at its first token
		RateLimitWaitMax:  time.Second,
	})
	if err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: cmp.Or(os.Getenv("REDIS_ADDR"), "127.0.0.1:6379"), DialerRetries: 1})
	defer rdb.Close()
	store := newStore(rdb)
	defer store.Close()

	file := rules.File(cmp.Or(os.Getenv("LIMITS"), "start/limits.yaml"))
	config, err := rules.Load(ctx, file)
	if err != nil {
		return err
	}
	set, err := rules.New(store, config, rules.Overrides(rules.RedisOf(store)))
	if err != nil {
		return err
	}
	store.Observer().Add(set) // its figures and changes
	go set.Watch(ctx, file)
	return demo.Serve(newHandler(store, set, keys.Keyfunc, issuer), try+tryAll)
}

const tryProvider = `
  export FREE=... PRO=... # tokens of your provider
`

const tryTokens = `
  export FREE=%s
  export PRO=%s
`

const tryAll = `
  # 401 without a token, then 10 a minute for a user, and 100 with the plan pro
  curl -i http://ADDR/notes
  for i in $(seq 12); do curl -s -o /dev/null -w '%{http_code} ' -H "Authorization: Bearer $FREE" http://ADDR/notes; done; echo
  for i in $(seq 12); do curl -s -o /dev/null -w '%{http_code} ' -H "Authorization: Bearer $PRO" http://ADDR/notes; done; echo
  # ten wrong guesses, then all attempts are denied
  for i in $(seq 12); do curl -s -o /dev/null -w '%{http_code} ' -d user=ann -d password=$i http://ADDR/login; done; echo
  # the decisions, by the rule that determined them
  curl -s http://ADDR/metrics | grep ^weir_requests_total
  # the page for operators, with the password in PASSWORD: http://ADDR/debug/limits
`
