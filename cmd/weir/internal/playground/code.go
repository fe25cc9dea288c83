package playground

import (
	"fmt"

	"github.com/weir-go/weir/core/driver"
)

// constructors are the names of functions of package core.
var constructors = map[driver.Algorithm]string{
	driver.TokenBucket: "TokenBucket", driver.LeakyBucket: "LeakyBucket", driver.FixedWindow: "FixedWindow",
	driver.SlidingLog: "SlidingLog", driver.SlidingWindow: "SlidingWindow",
}

// code returns a program with the limit of p.
func (p *Parameters) code(a driver.Algorithm) string {
	limit := fmt.Sprintf("core.%s(%d)", map[string]string{"s": "PerSecond", "m": "PerMinute", "h": "PerHour"}[p.Per], p.Limit)
	if a.IsBucket() && p.Burst != p.Limit {
		limit += fmt.Sprintf(".WithBurst(%d)", p.Burst)
	}
	return fmt.Sprintf(`package main

import (
	"fmt"
	"log"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

func main() {
	store := memstore.New()
	rule := core.%s(%q, %s)
	api := core.Must(core.New(store, rule))
	// The key is the address of the peer. Others:
	// keyfunc.XForwardedFor (behind a proxy),
	// Header("X-API-Key"), JWTSubject, and for all
	// clients together Constant("all").
	limit := nethttplimit.New(api, keyfunc.RemoteIP())
	hello := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello") // your handler
	}
	http.Handle("/", limit(http.HandlerFunc(hello)))
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", nil))
}
`, constructors[a], ruleName, limit)
}
