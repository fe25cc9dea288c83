// Throttling: the kinds of it, each on a route of its own.
//
//	go run -C _examples ./throttling
package main

import (
	"fmt"
	"log"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/load"
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

	// Soft: 10 a minute, and 20 percent more, which are flagged in State.Soft.
	soft := limit(core.SlidingLog("soft", core.PerMinute(10)).Soft(20))

	// Elastic: 5 a minute, and up to 20 while fewer than 4 requests are in flight. All
	// routes that count are counted; load.IdleCPU is another signal, and any
	// func() float64 is one.
	inFlight := load.NewInFlight(4)
	elastic := limit(core.FixedWindow("elastic", core.PerDay(5)).Elastic(inFlight.Spare, 4))
	counted := limit(core.TokenBucket("slow", core.PerSecond(100)), gate.CountInFlight(inFlight))

	// Leaky: requests leave the queue in steps of half a second. Who would have to
	// wait for more than a second is told so at once.
	leaky := limit(core.LeakyBucket("leaky", core.PerSecond(2).WithBurst(10)), gate.MaxDelay(time.Second))

	// Cost: 100 KiB a minute, and a request weighs what it uploads.
	upload := limit(core.TokenBucket("upload", core.PerMinute(100)), gate.Cost(kibibytes))

	// Settle: 1000 words a minute. What an answer costs is known when it is there.
	// Before that a request is charged 50, and afterwards what it was, into debt if
	// need be.
	chat := limit(core.TokenBucket("words", core.PerMinute(1000)), gate.Cost(func(*http.Request) int { return 50 }))

	mux := http.NewServeMux()
	mux.Handle("GET /soft", soft(http.HandlerFunc(tellSoft)))
	mux.Handle("GET /elastic", elastic(answer("stretched")))
	mux.Handle("GET /slow", counted(http.HandlerFunc(takeTime)))
	mux.Handle("GET /leaky", leaky(answer("my turn")))
	mux.Handle("POST /upload", upload(answer("stored")))
	mux.Handle("GET /chat", chat(http.HandlerFunc(chatter)))
	return mux
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, text) }
}

// tellSoft tells the client what the decision says about a soft limit.
func tellSoft(w http.ResponseWriter, r *http.Request) {
	if d, ok := gate.FromContext(r.Context()); ok && d.Soft() {
		fmt.Fprintln(w, "let through beyond the limit: slow down, please")
		return
	}
	fmt.Fprintln(w, "within the limit")
}

// takeTime is a request that keeps the server busy for some seconds.
func takeTime(w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(3 * time.Second):
		fmt.Fprintln(w, "done")
	case <-r.Context().Done():
	}
}

// kibibytes is what an upload costs. The length of a chunked one is not known; so
// that nobody hides behind that, it costs as much as the limit.
func kibibytes(r *http.Request) int {
	const most = 100
	if r.ContentLength < 0 || r.ContentLength > most<<10 {
		return most + 1 // never fits
	}
	return max(1, int((r.ContentLength+1023)>>10))
}

// chatter stands for a language model: it answers with as many words as it likes.
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
  # soft: 10, then 2 that are flagged, then none
  for i in $(seq 10); do curl -s -o /dev/null -w '%{http_code} ' http://ADDR/soft; done; echo
  for i in $(seq 3); do curl -s http://ADDR/soft; echo; done
  # elastic: nothing is in flight, so it is 20; and while 4 requests are, it is 5
  curl -si http://ADDR/elastic | grep -i ratelimit
  for i in $(seq 4); do curl -s -o /dev/null http://ADDR/slow & done; sleep 1; curl -si http://ADDR/elastic | grep -i ratelimit; wait
  # leaky: three leave half a second apart, two are told to come back
  for i in $(seq 5); do curl -s -o /dev/null -w '%{http_code} after %{time_total} s\n' http://ADDR/leaky & done; wait
  # cost: 60 KiB and 60 KiB are more than 100
  for i in $(seq 2); do head -c 61440 /dev/zero | curl -s -o /dev/null -w '%{http_code} ' --data-binary @- http://ADDR/upload; done; echo
  # settle: an answer of 3000 words is paid for in 2 minutes
  curl -s -o /dev/null -w '%{http_code} ' "http://ADDR/chat?words=3000"; curl -si http://ADDR/chat | grep -i retry-after
`

func main() {
	if err := demo.Serve(newHandler(), try); err != nil {
		log.Fatal(err)
	}
}
