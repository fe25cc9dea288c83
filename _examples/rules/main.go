// Rules limits an API by a configuration file. The limits change when the file changes, while the
// program runs.
//
//	go run -C _examples ./rules
//
// -config FILE, or the environment variable CONFIG, names another file.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// newHandler returns the API with the limiters of set. Logins have a gate of their own because they
// have another key.
func newHandler(set *rules.Set) (http.Handler, error) {
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
	return mux, nil
}

// user is the key function. A real application must verify the name.
func user(_ context.Context, r *http.Request) (string, error) {
	if name, _, ok := r.BasicAuth(); ok && name != "" {
		return name, nil
	}
	return "", keyfunc.ErrNoToken // status 401
}

// hello sends the decision as text. The header fields contain the same numbers.
func hello(w http.ResponseWriter, r *http.Request) {
	d, _ := gate.FromContext(r.Context())
	fmt.Fprintln(w, d)
}

// start returns the limiters of the configuration in path, which follow the file until ctx ends.
func start(ctx context.Context, store core.Store, path string) (*rules.Set, error) {
	file := rules.File(path)
	config, err := rules.Load(ctx, file)
	if err != nil {
		return nil, err // at the start, a missing or broken file is an error
	}
	set, err := rules.New(store, config, rules.OnChange(func(c rules.Change) {
		log.Printf("version %s: %s", c.Version, strings.Join(c.Diff, "; "))
	}))
	if err != nil {
		return nil, err
	}
	go func() { _ = set.Watch(ctx, file) }() // logs errors of a changed file, and keeps the old limits
	return set, nil
}

const try = `
  # 10 requests a minute for each user; sue has the plan gold and 100
  curl -i -u ann: http://ADDR/
  curl -i -u sue: http://ADDR/
  # an operator changes the file: a limit, and an exception for the user ann
  sed -e 's|limit: 10/m|limit: 20/m|' -e 's|"sue": .*|&\n      "ann": {limits: {minute: 250/m}}|' FILE > FILE.new && mv FILE.new FILE
  sleep 2
  curl -i -u ann: http://ADDR/
  curl -i -u bob: http://ADDR/
  # a broken file: the program logs the position, and the limits stay
  cp FILE FILE.good; echo 'polices: {}' >> FILE
  sleep 2
  curl -i -u bob: http://ADDR/
  mv FILE.good FILE
`

func run() error {
	_, source, _, _ := runtime.Caller(0)
	path := flag.String("config", cmp.Or(os.Getenv("CONFIG"), filepath.Join(filepath.Dir(source), "limits.yaml")), "configuration file")
	flag.Parse()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	set, err := start(ctx, memstore.New(), *path)
	if err != nil {
		return err
	}
	handler, err := newHandler(set)
	if err != nil {
		return err
	}
	return demo.Serve(handler, strings.ReplaceAll(try, "FILE", *path))
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
