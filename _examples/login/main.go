// Login: a form to sign in that allows five failures in a quarter of an hour, from
// an address and for a user. Only failures count, and if the limiter cannot decide
// the form is closed.
//
//	go run -C _examples ./login
package main

import (
	"context"
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
	// A sliding log, because this is a promise: in no quarter of an hour are there
	// six failures, however the guesses are spread.
	store := memstore.New() // with several instances, redisstore.New(rdb)
	perAddress := core.Must(core.New(store, core.SlidingLog("address", core.Per(5, 15*time.Minute))))
	perUser := core.Must(core.New(store, core.SlidingLog("user", core.Per(5, 15*time.Minute))))

	limit := nethttplimit.New(perAddress, keyfunc.RemoteIP(),
		// Both in one decision. One who guesses at many users has one address, and
		// many addresses that guess at one user have that user.
		gate.And(perUser, userName),
		// Every attempt is charged before it is looked at, so that a thousand at once
		// are no way around the limit, and what succeeds is given back.
		gate.RefundIf(func(status int) bool { return status == http.StatusOK }),
		// No limit, no guesses: 503 if the store cannot decide.
		gate.FailClosed(),
	)
	mux := http.NewServeMux()
	mux.Handle("POST /login", limit(http.HandlerFunc(login)))
	return mux
}

// userName is who is to be signed in, whatever the case and the space around.
func userName(_ context.Context, r *http.Request) (string, error) {
	r.Body = http.MaxBytesReader(nil, r.Body, 4096) // a name and a password are no more
	name := strings.ToLower(strings.TrimSpace(r.PostFormValue("user")))
	if name == "" {
		return "", fmt.Errorf("%w: no user", keyfunc.ErrNoKey)
	}
	return name, nil
}

func login(w http.ResponseWriter, r *http.Request) {
	if name, _ := userName(r.Context(), r); !valid(name, r.PostFormValue("password")) {
		http.Error(w, "no such user, or another password", http.StatusUnauthorized)
		return
	}
	fmt.Fprintln(w, "welcome")
}

// valid stands for your own check, with a password hash that is slow on purpose.
func valid(name, password string) bool {
	sum := sha256.Sum256([]byte(password))
	want := sha256.Sum256([]byte("correct horse"))
	return name == "alice" && subtle.ConstantTimeCompare(sum[:], want[:]) == 1
}

const try = `
  # who knows the password signs in as often as she likes
  for i in $(seq 8); do curl -s -o /dev/null -w '%{http_code} ' -d user=alice -d 'password=correct horse' http://ADDR/login; done; echo
  # who does not has five attempts, and from then on the right password does not help either
  for i in $(seq 7); do curl -s -o /dev/null -w '%{http_code} ' -d user=alice -d password=$i http://ADDR/login; done; echo
  curl -i -d user=alice -d 'password=correct horse' http://ADDR/login
`

func main() {
	if err := demo.Serve(newHandler(), try); err != nil {
		log.Fatal(err)
	}
}
