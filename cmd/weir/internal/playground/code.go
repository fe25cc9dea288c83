package playground

import "fmt"

// code returns a program with the rule of k.
func (p *Parameters) code(k *kind) string {
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
	rule := %s
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
`, k.ruleCode(p))
}
