// Nethttp limits an API on http.ServeMux behind a proxy: the whole API, and
// single routes.
//
//	go run -C _examples ./nethttp
//
// The middleware is a func(http.Handler) http.Handler, so it works the same way
// with any router that takes such functions, for example with chi:
// router.Use(perClient); router.With(perWrite).Post("/items", create).
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"strconv"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

func newHandler() http.Handler {
	store := memstore.New()
	client := core.Must(core.New(store, core.TokenBucket("client", core.PerMinute(20))))
	everyone := core.Must(core.New(store, core.TokenBucket("everyone", core.PerSecond(1000))))

	// A proxy in front of the API puts the address of its client into
	// X-Forwarded-For. The field is used only if the connection comes from a trusted
	// proxy; in this demo, from this machine. List the networks of your own proxies,
	// and no others.
	ip := keyfunc.XForwardedFor(keyfunc.Proxies("127.0.0.0/8", "::1/128"))

	// For the whole API: 20 requests a minute from each client, and 1000 a second
	// from all clients together. Both limits are checked in one decision, so a client
	// that is over its own limit does not consume the common one.
	perClient := nethttplimit.New(client, ip, gate.And(everyone, keyfunc.Constant("all")), gate.Skip(isHealthCheck))

	// For single routes, inside the middleware of the whole API.
	perWrite := nethttplimit.Limit(store, core.SlidingLog("write", core.PerMinute(3)), ip)
	perSearch := nethttplimit.Limit(store, core.TokenBucket("search", core.PerMinute(10)), ip, gate.Cost(pages))

	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", answer("ok"))
	mux.HandleFunc("GET /items", answer("all the items"))
	mux.Handle("POST /items", perWrite(answer("created")))
	mux.Handle("GET /search", perSearch(answer("found")))
	return perClient(mux)
}

func isHealthCheck(_ context.Context, r *http.Request) bool { return r.URL.Path == "/healthz" }

// pages returns the cost of a search: one for each page that it requests.
func pages(_ context.Context, r *http.Request) int {
	n, err := strconv.Atoi(r.URL.Query().Get("pages"))
	if err != nil || n < 1 {
		return 1 // otherwise a client could choose a cost of zero or less
	}
	return n
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, text) }
}

const try = `
  curl -i http://ADDR/items
  # writing also has its own limit: 3 a minute
  for i in $(seq 4); do curl -s -o /dev/null -w '%{http_code} ' -X POST http://ADDR/items; done; echo
  # another client, as a proxy on this machine would report it
  curl -i -X POST -H 'X-Forwarded-For: 203.0.113.7' http://ADDR/items
  # 10 pages of search a minute: the second 6 are too many now; 11 are too many at any time, so there is no Retry-After
  curl -i "http://ADDR/search?pages=6"
  curl -i "http://ADDR/search?pages=6"
  curl -i "http://ADDR/search?pages=11"
  # not limited
  curl -i http://ADDR/healthz
`

func main() {
	if err := demo.Serve(newHandler(), try); err != nil {
		log.Fatal(err)
	}
}
