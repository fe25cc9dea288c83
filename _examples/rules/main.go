// Rules limits an API by a configuration in a file or in Redis. The limits change when the
// configuration changes, while the program runs. In Redis, operators also change limits of single
// users.
//
//	go run -C _examples ./rules
//	go run -C _examples ./rules -redis redis://127.0.0.1:6379
//
// -config FILE, or the environment variable CONFIG, names a file; the default is a temporary copy of
// limits.yaml. -redis URL, or REDIS_URL, uses Redis: the file is written into it if it has no
// configuration, and used while it is down.
// PASSWORD opens a page for operators, at /debug/limits.
// Start the program twice (ADDR=127.0.0.1:8081 for the second) to see that both have the same limits
// and count together.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/inspect"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// limits are the limiters of a configuration, and the store that counts their decisions.
type limits struct {
	*rules.Set
	counted *observe.Store
}

// newHandler returns the API with the limiters of set. Logins have a gate of their own because they
// have another key.
func newHandler(set *limits) (http.Handler, error) {
	api, err1 := set.Limiter("api")
	login, err2 := set.Limiter("login")
	if err := errors.Join(err1, err2); err != nil {
		return nil, err // the first configuration must have the policies
	}
	mux := http.NewServeMux()
	limit := nethttplimit.New(api, user, gate.Routes(set)) // the routes of the file choose the policy
	mux.Handle("/", limit(http.HandlerFunc(hello)))
	mux.Handle("GET /search", limit(http.HandlerFunc(hello)))
	mux.Handle("POST /login", nethttplimit.New(login, keyfunc.RemoteIP())(http.HandlerFunc(hello)))
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, set.Version()) })
	mux.Handle("/debug/limits", inspect.New(demo.Operator, set.counted, inspect.Rules(set.Set))) // for operators
	return mux, nil
}

// user is the key function: the key of ann is basic:ann, and the status without a name is 401. A
// real application must verify the password.
var user = keyfunc.BasicAuthUser()

// hello sends the decision as text. The header fields contain the same numbers.
func hello(w http.ResponseWriter, r *http.Request) {
	d, _ := gate.FromContext(r.Context())
	fmt.Fprintln(w, d)
}

// fromFile returns the limiters of the configuration in path, which follow the file until ctx ends.
func fromFile(ctx context.Context, path string) (*limits, error) {
	file := rules.File(path)
	config, err := rules.Load(ctx, file)
	if err != nil {
		return nil, err // at the start, a missing or broken file is an error
	}
	return watch(ctx, memstore.New(), config, file)
}

// fromRedis returns the limiters of the configuration in Redis, which follow Redis until ctx ends.
// They begin with that of path if Redis is empty or down.
func fromRedis(ctx context.Context, rdb redis.UniversalClient, path string) (*limits, error) {
	// All processes count in Redis, and each for itself while Redis is down.
	store := failover.New(redisstore.New(rdb, "rules"), memstore.New())
	source := rules.RedisOf(store)
	soon, cancel := context.WithTimeout(ctx, 3*time.Second) // Redis may hang
	defer cancel()
	config, err := rules.Load(soon, source)
	if err != nil {
		log.Printf("the first limits are those of %s: %v", path, err)
		text, err2 := os.ReadFile(path)
		if err2 != nil {
			return nil, err2
		}
		if config, err2 = rules.Parse(path, text); err2 != nil {
			return nil, err2
		}
		if errors.Is(err, rules.ErrNoConfig) {
			if err := source.Put(soon, text); err != nil {
				return nil, err
			}
			log.Printf("%s is written into Redis", path)
		}
	}
	return watch(ctx, store, config, source, rules.Overrides(source))
}

func watch(ctx context.Context, store core.Store, config *rules.Config, source rules.Source, opts ...rules.Option) (*limits, error) {
	counted := observe.New(store, observe.TopKeys(10))
	set, err := rules.New(counted, config, append(opts, rules.OnChange(func(c rules.Change) {
		log.Printf("version %s: %s", c.Version, strings.Join(c.Diff, "; "))
	}))...)
	if err != nil {
		return nil, err
	}
	go func() { _ = set.Watch(ctx, source) }() // logs errors of a changed text, and keeps the old limits
	counted.Add(set)
	return &limits{set, counted}, nil
}

const tryFile = `
  # 10 requests a minute for each user; sue has the plan gold and 100
  curl -i -u ann: http://ADDR/
  curl -i -u sue: http://ADDR/
  # an operator changes the file: a limit, and an exception for the user ann
  sed -e 's|limit: 10/m|limit: 20/m|' -e 's|"basic:sue": .*|&\n      "basic:ann": {limits: {minute: 250/m}}|' FILE > FILE.new && mv FILE.new FILE
  sleep 2
  curl -i -u ann: http://ADDR/
  curl -i -u bob: http://ADDR/
  # a broken file: the program logs the position, and the limits stay
  cp FILE FILE.good; echo 'polices: {}' >> FILE
  sleep 2
  curl -i -u bob: http://ADDR/
  mv FILE.good FILE
`

const tryRedis = `
  # 10 requests a minute for each user; sue has the plan gold and 100
  curl -i -u ann: http://ADDR/
  curl -i -u sue: http://ADDR/
  # in the root of the repository: an operator gives ann other limits, and blocks bob for a day
  go run github.com/weir-go/weir/cmd/weir rules override -app rules -redis 'URL' api basic:ann '{limits: {minute: 250/m}}'
  go run github.com/weir-go/weir/cmd/weir rules block -app rules -redis 'URL' api basic:bob 24h
  sleep 2
  curl -i -u ann: http://ADDR/
  curl -i -u bob: http://ADDR/
  # the page http://ADDR/debug/limits shows the block of basic:bob, with the password in PASSWORD
  # the operator ends the block, and changes a limit of all
  go run github.com/weir-go/weir/cmd/weir rules unblock -app rules -redis 'URL' api basic:bob
  go run github.com/weir-go/weir/cmd/weir rules get -app rules -redis 'URL' | sed -e 's|limit: 10/m|limit: 20/m|' > FILE.new
  go run github.com/weir-go/weir/cmd/weir rules put -app rules -redis 'URL' FILE.new && rm FILE.new
  sleep 2
  curl -i -u bob: http://ADDR/
`

//go:embed limits.yaml
var configuration []byte

func run() error {
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	copied := filepath.Join(dir, "limits.yaml") // so that the commands below change no file of the repository
	if err := os.WriteFile(copied, configuration, 0o600); err != nil {
		return err
	}
	path := flag.String("config", cmp.Or(os.Getenv("CONFIG"), copied), "configuration `FILE`")
	url := flag.String("redis", os.Getenv("REDIS_URL"), "`URL` of Redis, for a configuration that processes share")
	flag.Parse()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	set, try, err := start(ctx, *path, *url)
	if err != nil {
		return err
	}
	handler, err := newHandler(set)
	if err != nil {
		return err
	}
	return demo.Serve(handler, strings.NewReplacer("FILE", *path, "URL", *url).Replace(try))
}

// start returns the limiters of the configuration in path, or at the URL if there is one, and
// commands to try.
func start(ctx context.Context, path, url string) (*limits, string, error) {
	if url == "" {
		set, err := fromFile(ctx, path)
		return set, tryFile, err
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, "", err
	}
	options.DialerRetries = 1            // the store itself retries
	options.ContextTimeoutEnabled = true // otherwise go-redis ignores deadlines of contexts while it waits for replies
	logging.Disable()                    // go-redis logs every attempt; the errors of the Set are enough here
	set, err := fromRedis(ctx, redis.NewClient(options), path)
	return set, tryRedis, err
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
