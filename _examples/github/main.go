// Github has limits like the secondary rate limits of GitHub's REST API. One decision, which is one
// call of Redis, checks all of them: 100 requests of a client at the same time, 900 points a minute, and
// for requests that create content also 80 a minute and 500 an hour. A request that one of them denies is
// charged to none.
//
//	go run -C _examples ./github
//
// IN_FLIGHT is the number of requests at the same time, 100 by default. If REDIS_URL is set, all
// processes share the limits, and REDIS_TIMEOUT is the longest time that a decision may take, 100ms by
// default.
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
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// The figures are those of GitHub's documentation, "About secondary rate limits" and "Calculating points
// for the secondary rate limit":
//
//	https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
//
// GitHub has more limits (CPU time, an hourly limit of all requests), identifies clients by their
// tokens, and may count the points of each endpoint apart. It does not document its algorithms. A sliding
// window never admits more than the limit in any minute.
func newHandler(store core.Store, atOnce int) http.Handler {
	inFlight := core.Must(core.New(store, core.InFlight("concurrent", atOnce)))
	points := core.Must(core.New(store, core.SlidingWindow("points", core.PerMinute(900)).Unit("points")))
	content := core.Must(core.New(store,
		core.SlidingWindow("content-minute", core.PerMinute(80)),
		core.SlidingWindow("content-hour", core.PerHour(500))))

	// Your program uses its own authentication instead of the address.
	client := keyfunc.RemoteIP()

	// A request takes a place of inFlight, and the place is free again when its handler has returned. The
	// points have a cost of their own: a request is one request, and one or five points.
	withPoints := gate.And(points, client, gate.Cost(pointsOf))
	limit := nethttplimit.New(inFlight, client, withPoints)
	limitContent := nethttplimit.New(inFlight, client, withPoints, gate.And(content, client))

	mux := http.NewServeMux()
	mux.Handle("GET /issues", limit(answer("no issues")))
	mux.Handle("POST /issues", limitContent(answer("created")))
	mux.Handle("PUT /star", limit(answer("starred"))) // changes data, and creates no content
	mux.Handle("GET /archive", limit(http.HandlerFunc(archive)))
	return mux
}

// pointsOf returns the points of a request: 1 if it reads, and 5 if it changes data.
func pointsOf(_ context.Context, r *http.Request) int {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return 1
	}
	return 5
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, text) }
}

const slow = 4 * time.Second

// archive keeps a request in flight, until it is done or the client hangs up.
func archive(w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(slow):
		fmt.Fprintln(w, "done")
	case <-r.Context().Done():
	}
}

const try = `
  curl -i http://ADDR/issues
  # PLACES slow requests at the same time: another request is denied, without Retry-After, as it is not known when one ends
  curl -s -o /dev/null -Z --parallel-immediate --parallel-max PLACES "http://ADDR/archive?[1-PLACES]" & sleep 2; curl -i http://ADDR/issues; wait
  # they have ended, so their places are free; the denied request has cost no point
  curl -si http://ADDR/issues | grep -i -e http -e ratelimit:
  # content: 80 a minute, then a denial with Retry-After
  for i in $(seq 81); do curl -s -o /dev/null -w '%{http_code} ' -X POST http://ADDR/issues; done; echo
  curl -si -X POST http://ADDR/issues | grep -i -e http -e retry
  # points: each PUT costs 5
  for i in $(seq 100); do curl -s -o /dev/null -w '%{http_code} ' -X PUT http://ADDR/star; done; echo
  curl -i -X PUT http://ADDR/star
`

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	atOnce, err := strconv.Atoi(cmp.Or(os.Getenv("IN_FLIGHT"), "100"))
	if err != nil {
		return fmt.Errorf("IN_FLIGHT: %w", err)
	}
	var store core.Store = memstore.New()
	if url := os.Getenv("REDIS_URL"); url != "" {
		options, err := redis.ParseURL(url)
		if err != nil {
			return fmt.Errorf("REDIS_URL: %w", err)
		}
		rdb := redis.NewClient(options)
		defer rdb.Close()
		timeout, err := time.ParseDuration(cmp.Or(os.Getenv("REDIS_TIMEOUT"), "100ms"))
		if err != nil {
			return fmt.Errorf("REDIS_TIMEOUT: %w", err)
		}
		store = redisstore.New(rdb, "github", redisstore.Timeout(timeout))
	}
	return demo.Serve(newHandler(store, atOnce), strings.ReplaceAll(try, "PLACES", strconv.Itoa(atOnce)))
}
