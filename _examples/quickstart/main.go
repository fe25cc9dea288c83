// Quickstart: net/http and a limiter in memory, nothing else to install.
//
//	go run -C _examples ./quickstart
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

func newHandler() http.Handler {
	// A store keeps the state of every rule and key. This store is in memory and
	// serves one process; the example "redis" shares a store between processes.
	store := memstore.New()

	// A limiter is one or more rules over a store. The name of a rule is sent to
	// clients, and each rule of a store has its own name.
	//
	// A token bucket admits 10 requests at once and then refills one every 6 s.
	// A sliding log admits at most 3 requests in any span of a minute.

	// The key of a client is the address at the other end of the connection. Behind
	// a proxy that is the address of the proxy: use keyfunc.XForwardedFor instead, as
	// the example "nethttp" does.
	ip := keyfunc.RemoteIP()

	limitPage := nethttplimit.Limit(store, core.TokenBucket("page", core.PerMinute(10)), ip)
	limitLogin := nethttplimit.Limit(store, core.SlidingLog("login", core.PerMinute(3)), ip)

	mux := http.NewServeMux()
	mux.Handle("GET /{$}", limitPage(http.HandlerFunc(hello)))
	mux.Handle("POST /login", limitLogin(http.HandlerFunc(signIn)))
	return mux
}

func hello(w http.ResponseWriter, r *http.Request)  { fmt.Fprintln(w, "Hello!") }
func signIn(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "Welcome back!") }

const try = `
  curl -i http://ADDR/
  # 12 requests: 200 ten times in all, then 429
  for i in $(seq 12); do curl -s -o /dev/null -w '%{http_code} ' http://ADDR/; done; echo
  # the login has its own limit: 3 a minute
  for i in $(seq 4); do curl -s -i -X POST http://ADDR/login; done
`

// main runs an ordinary server, which stops on Ctrl-C or SIGTERM.
func main() {
	if err := serve(); err != nil {
		log.Fatal(err)
	}
}

func serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080"))
	if err != nil {
		return err
	}
	addr := strings.Replace(listener.Addr().String(), "[::]", "localhost", 1) // for ADDR=:8080
	fmt.Printf("Listening on http://%s (Ctrl-C ends it). Try:\n%s\n", addr, strings.ReplaceAll(try, "ADDR", addr))

	server := &http.Server{Handler: newHandler(), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stop() // a second Ctrl-C ends the program at once
	grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.Shutdown(grace) // requests in progress may finish
}
