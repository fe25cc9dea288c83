// Throttling shows soft, elastic and leaky limits, costs, and settled costs, each on
// its own route.
//
//	go run -C _examples ./throttling
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

func newHandler() http.Handler {
	store := memstore.New()
	ip := keyfunc.RemoteIP()
	limit := func(rule core.Rule, opts ...gate.Option) func(http.Handler) http.Handler {
		return nethttplimit.New(core.Must(core.New(store, rule)), ip, opts...)
	}

	// Soft: 10 a minute, and an excess of 20 percent, which is flagged in State.Soft.
	soft := limit(core.SlidingLog("soft", core.PerMinute(10)).Soft(20))

	// Elastic: 5 a day, and up to 20 while fewer than 4 slow requests run. The signal may be
	// any func() float64 that returns the free part of a resource. load.IdleCPU is another
	// one, and load.Smooth averages a signal that jumps.
	var running atomic.Int64
	spare := func() float64 { return 1 - float64(running.Load())/4 }
	elastic := limit(core.FixedWindow("elastic", core.PerDay(5)).Elastic(spare, 4))
	slow := limit(core.TokenBucket("slow", core.PerSecond(100)))

	// Leaky: requests leave the queue at intervals of half a second. A request whose
	// delay would exceed a second is denied at once.
	leaky := limit(core.LeakyBucket("leaky", core.PerSecond(2).WithBurst(10)), gate.MaxDelay(time.Second))

	// Cost: 100 KiB a minute; the cost of a request is the size of its body in KiB.
	upload := limit(core.TokenBucket("upload", core.PerMinute(100)), gate.Cost(kibibytes))

	// Settle: 1000 words a minute. The cost of an answer is known only afterwards, so a
	// request is charged 50 first, and then settled at the number of words. A cost above
	// the remaining capacity puts the key into debt.
	chat := limit(core.TokenBucket("words", core.PerMinute(1000)), gate.Cost(func(context.Context, *http.Request) int { return 50 }))

	mux := http.NewServeMux()
	mux.Handle("GET /soft", soft(http.HandlerFunc(reportSoft)))
	mux.Handle("GET /elastic", elastic(answer("admitted")))
	mux.Handle("GET /slow", slow(counted(&running, takeTime)))
	mux.Handle("GET /leaky", leaky(answer("left the queue")))
	mux.Handle("POST /upload", upload(answer("stored")))
	mux.Handle("GET /chat", chat(http.HandlerFunc(chatter)))
	return mux
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, text) }
}

// reportSoft tells the client whether it is above the soft limit.
func reportSoft(w http.ResponseWriter, r *http.Request) {
	if d, ok := gate.FromContext(r.Context()); ok && d.Soft() {
		fmt.Fprintln(w, "admitted above the limit: slow down, please")
		return
	}
	fmt.Fprintln(w, "within the limit")
}

// counted counts the requests in running while h serves them. A request that panics ends as well.
func counted(running *atomic.Int64, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Add(-1)
		h(w, r)
	}
}

// takeTime serves a request for three seconds.
func takeTime(w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(3 * time.Second):
		fmt.Fprintln(w, "done")
	case <-r.Context().Done():
	}
}

// kibibytes returns the cost of an upload. A chunked upload has no known length, so its
// cost is above the limit and it is always denied.
func kibibytes(_ context.Context, r *http.Request) int {
	const most = 100
	if r.ContentLength < 0 || r.ContentLength > most<<10 {
		return most + 1 // never fits
	}
	return max(1, int((r.ContentLength+1023)>>10))
}

// chatter stands for a language model, whose answer can have any number of words.
func chatter(w http.ResponseWriter, r *http.Request) {
	words, err := strconv.Atoi(r.URL.Query().Get("words"))
	if err != nil || words < 1 || words > 5000 {
		words = 10
	}
	if err := gate.Settle(r.Context(), words); err != nil {
		log.Print(err)
	}
	fmt.Fprintln(w, strings.Repeat("blah ", words))
}

const try = `
  # soft: 10 are admitted, 2 are admitted and flagged, the next is denied
  for i in $(seq 10); do curl -s -o /dev/null -w '%{http_code} ' http://ADDR/soft; done; echo
  for i in $(seq 3); do curl -s http://ADDR/soft; echo; done
  # elastic: the limit is 20 while no slow request runs, and 5 while 4 do
  curl -si http://ADDR/elastic | grep -i ratelimit
  for i in $(seq 4); do curl -s -o /dev/null http://ADDR/slow & done; sleep 1; curl -si http://ADDR/elastic | grep -i ratelimit; wait
  # leaky: three leave at intervals of half a second, two are denied
  for i in $(seq 5); do curl -s -o /dev/null -w '%{http_code} after %{time_total} s\n' http://ADDR/leaky & done; wait
  # cost: two uploads of 60 KiB exceed 100 KiB
  for i in $(seq 2); do head -c 61440 /dev/zero | curl -s -o /dev/null -w '%{http_code} ' --data-binary @- http://ADDR/upload; done; echo
  # settle: an answer of 3000 words leaves a debt that is repaid in 2 minutes
  curl -s -o /dev/null -w '%{http_code} ' "http://ADDR/chat?words=3000"; curl -si http://ADDR/chat | grep -i retry-after
`

func main() {
	if err := demo.Serve(newHandler(), try); err != nil {
		log.Fatal(err)
	}
}
