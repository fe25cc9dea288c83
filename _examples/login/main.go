// Login limits a login form to five failures in a quarter of an hour, by address and
// by user. Only failures count. If the limiter cannot decide, the form answers 503.
//
//	go run -C _examples ./login
package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

func newHandler() http.Handler {
	// A sliding log guarantees that no span of a quarter of an hour contains six
	// failures, however the guesses are spread.
	store := memstore.New() // with several instances, redisstore.New(rdb)
	perAddress := core.Must(core.New(store, core.SlidingLog("address", core.Per(5, 15*time.Minute))))
	perUser := core.Must(core.New(store, core.SlidingLog("user", core.Per(5, 15*time.Minute))))

	limit := nethttplimit.New(perAddress, keyfunc.RemoteIP(),
		// Both limits are checked in one decision. The limit by address stops one
		// client that guesses passwords of many users; the limit by user stops many
		// addresses that guess the password of one user.
		gate.And(perUser, user),
		// Every attempt is charged before the handler runs, so that a thousand
		// concurrent attempts cannot exceed the limit. A successful login is refunded.
		gate.RefundIf(func(status int) bool { return status == http.StatusOK }),
		// Answer 503 if the store cannot decide.
		gate.FailClosed(),
	)
	mux := http.NewServeMux()
	mux.Handle("POST /login", limit(http.HandlerFunc(login)))
	return mux
}

// user is the key function: the name in the form, in lower case and without surrounding
// space, as login looks it up.
var user = keyfunc.Fold(keyfunc.FormValue("user"))

func login(w http.ResponseWriter, r *http.Request) {
	name := strings.ToLower(strings.TrimSpace(r.PostFormValue("user")))
	if !valid(name, r.PostFormValue("password")) {
		http.Error(w, "no such user, or another password", http.StatusUnauthorized)
		return
	}
	fmt.Fprintln(w, "welcome")
}

// valid stands for your own check, which uses a slow password hash.
func valid(name, password string) bool {
	sum := sha256.Sum256([]byte(password))
	want := sha256.Sum256([]byte("correct horse"))
	return name == "alice" && subtle.ConstantTimeCompare(sum[:], want[:]) == 1
}

const try = `
  # successful logins are not limited
  for i in $(seq 8); do curl -s -o /dev/null -w '%{http_code} ' -d user=alice -d 'password=correct horse' http://ADDR/login; done; echo
  # after five failures every attempt is denied, even with the right password
  for i in $(seq 7); do curl -s -o /dev/null -w '%{http_code} ' -d user=alice -d password=$i http://ADDR/login; done; echo
  curl -i -d user=alice -d 'password=correct horse' http://ADDR/login
`

func main() {
	if err := demo.Serve(newHandler(), try); err != nil {
		log.Fatal(err)
	}
}
