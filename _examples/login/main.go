// Login limits the failures of a login, by address and by user: 5 in a minute, 8 in a quarter of an
// hour, 12 in a day. Only failures count. A form and a JSON API share the limits. If the limiter
// cannot decide, the login answers 503.
//
//	go run -C _examples ./login
package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
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

// failures returns the limits of the failures of each address or user. They replace a ban: a person
// who mistypes waits for a minute, and a program that guesses gets 12 guesses a day. A sliding log
// guarantees each limit in any span of its period, however the guesses are spread.
func failures(store core.Store, of string) *core.Limiter {
	return core.Must(core.New(store,
		core.SlidingLog(of+"-minute", core.PerMinute(5)),
		core.SlidingLog(of+"-quarter", core.Per(8, 15*time.Minute)),
		core.SlidingLog(of+"-day", core.PerDay(12)),
	))
}

func newHandler(store core.Store, valid func(user, password string) bool) http.Handler {
	// The limit by address stops one client that guesses passwords of many users; many people behind
	// one address need a higher one. The limit by user stops many addresses that guess the password of
	// one user. It also lets them lock the user out until the failures expire, so offer another way in,
	// such as a link by mail.
	perAddress, perUser := failures(store, "address"), failures(store, "user")

	// Both limits are checked in one decision, before the handler runs, so concurrent guesses cannot
	// exceed them. The key of a user is folded as login folds the name: otherwise every spelling
	// would have a limit of its own.
	limit := func(user keyfunc.Func, handler http.HandlerFunc, opts ...gate.Option) http.Handler {
		opts = append(opts, gate.And(perUser, keyfunc.Fold(user)), gate.FailClosed(),
			gate.Headers()) // no RateLimit fields, which would tell anyone how many failures a user has had
		return nethttplimit.New(perAddress, keyfunc.RemoteIP(), opts...)(handler)
	}
	login := func(r *http.Request, user, password string) bool {
		if !valid(strings.ToLower(strings.TrimSpace(user)), password) {
			return false
		}
		// The success does not count, and proves the user: forget the failures of the user. Never
		// reset the address: an attacker could log in to an own account between the guesses.
		if err := errors.Join(gate.Reset(r.Context(), perUser), gate.Refund(r.Context())); err != nil {
			log.Print(err) // the login may count as a failure
		}
		return true
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "welcome") })
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("failed") {
			fmt.Fprintln(w, "<p>No such user, or another password.")
		}
		fmt.Fprintln(w, form)
	})
	mux.Handle("POST /login", limit(keyfunc.FormValue("user"), func(w http.ResponseWriter, r *http.Request) {
		next := "/login?failed=1"
		if login(r, r.PostFormValue("user"), r.PostFormValue("password")) {
			next = "/" // with the cookie of a new session
		}
		http.Redirect(w, r, next, http.StatusSeeOther)
	}, nethttplimit.OnDenied(tooManyFailures)))
	mux.Handle("POST /api/login", limit(keyfunc.JSONField("user"), func(w http.ResponseWriter, r *http.Request) {
		var body struct{ User, Password string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || !login(r, body.User, body.Password) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintln(w, `{"error":"no such user, or another password"}`)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	return mux
}

const form = `<!doctype html><title>Log in</title><form method="post" action="/login">
<input name="user" required> <input name="password" type="password" required> <button>Log in</button></form>`

// tooManyFailures is the page for a denied form. A denied call of the API gets the problem document.
func tooManyFailures(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusTooManyRequests)
	fmt.Fprintf(w, "<!doctype html><p>Too many failures. Try again in %s seconds.\n", w.Header().Get("Retry-After"))
}

// valid stands for your own check, which uses a slow password hash, for unknown users, too.
func valid(user, password string) bool {
	sum := sha256.Sum256([]byte(password))
	want := sha256.Sum256([]byte("correct horse"))
	return subtle.ConstantTimeCompare(sum[:], want[:]) == 1 && user == "alice"
}

const try = `
  # successful logins are not limited
  for i in $(seq 8); do curl -s -o /dev/null -w '%{http_code} %{redirect_url}\n' -d user=alice -d 'password=correct horse' http://ADDR/login; done
  # five failures: the form redirects after these, too
  for i in $(seq 7); do curl -s -o /dev/null -w '%{http_code} %{redirect_url}\n' -d user=alice -d password=$i http://ADDR/login; done
  # now every attempt is denied, even with the right password
  curl -i -d user=alice -d 'password=correct horse' http://ADDR/login
  curl -i -H 'Content-Type: application/json' -d '{"user":"Alice","password":"correct horse"}' http://ADDR/api/login
`

func main() {
	store := memstore.New() // with several instances, redisstore.New(rdb, "login")
	if err := demo.Serve(newHandler(store, valid), try); err != nil {
		log.Fatal(err)
	}
}
