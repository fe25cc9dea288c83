package playground

import "fmt"

// code returns a program with the rule of k.
func (p *Parameters) code(k *kind) string {
	packages, option := [2]string{}, ""
	if k.id == "leaky_bucket" { // a queue of the page may be longer than the 10 s for which a middleware holds a request
		packages = [2]string{"\n\t\"time\"", "\n\t\"github.com/weir-go/weir/core/gate\""}
		option = ",\n\t\tgate.MaxDelay(1000*time.Hour)"
	}
	return fmt.Sprintf(`package main

import (
	"fmt"
	"log"
	"net/http"%[2]s

	"github.com/weir-go/weir/core"%[3]s
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

func main() {
	store := memstore.New()
	rule := %[1]s
	api := core.Must(core.New(store, rule))
	// The key is the address of the peer. Others:
	// keyfunc.XForwardedFor (behind a proxy),
	// Header("X-API-Key"), JWTSubject, and for all
	// clients together Constant("all").
	limit := nethttplimit.New(api, keyfunc.RemoteIP()%[4]s)
	hello := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello") // your handler
	}
	http.Handle("/", limit(http.HandlerFunc(hello)))
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", nil))
}
`, k.ruleCode(p), packages[0], packages[1], option)
}
