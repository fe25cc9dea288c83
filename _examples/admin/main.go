// Admin shows an endpoint for operators: it shows, resets and credits the usage of a
// user. With limits in a file or in Redis, the command weir rules does the same.
//
//	ADMIN_TOKEN=$(openssl rand -hex 16) go run -C _examples ./admin
package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

func newHandler(token string, store core.Store) http.Handler {
	api := core.Must(core.New(store, core.TokenBucket("api", core.PerHour(3))))

	mux := http.NewServeMux()
	mux.Handle("GET /{$}", nethttplimit.New(api, keyfunc.BasicAuthUser())(http.HandlerFunc(hello)))
	mux.Handle("GET /admin/limits/{user}", authenticated(token, admin(api, look)))
	mux.Handle("DELETE /admin/limits/{user}", authenticated(token, admin(api, reset)))
	mux.Handle("POST /admin/limits/{user}", authenticated(token, admin(api, credit)))
	return mux
}

// admin does something to the user in the path, and answers with the decision that the user would get then.
func admin(api *core.Limiter, do func(r *http.Request, api *core.Limiter, key string) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := "basic:" + r.PathValue("user") // as keyfunc.BasicAuthUser returns it
		err := do(r, api, key)
		var d core.Decision
		if err == nil {
			d, err = api.Peek(r.Context(), key)
		}
		switch {
		case errors.Is(err, core.ErrUnavailable):
			log.Print(err)
			http.Error(w, "try again", http.StatusServiceUnavailable)
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
		default:
			fmt.Fprintln(w, d)
		}
	})
}

func look(*http.Request, *core.Limiter, string) error { return nil }

func reset(r *http.Request, api *core.Limiter, key string) error {
	_, err := api.Reset(r.Context(), key)
	return err
}

// credit frees the number of requests in the parameter n.
func credit(r *http.Request, api *core.Limiter, key string) error {
	n, err := strconv.Atoi(r.FormValue("n"))
	if err != nil {
		return errors.New("n is not a number")
	}
	return api.Credit(r.Context(), key, n)
}

// authenticated calls next for requests with the token, which it compares in constant time.
func authenticated(token string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte("Bearer " + token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "operators only", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "Hello!") }

const try = `
  # ann uses up the 3 requests an hour
  for i in $(seq 4); do curl -s -o /dev/null -w '%{http_code} ' -u ann: http://ADDR/; done; echo
  # an operator looks, credits one request, and then forgets all
  curl -s -H "Authorization: Bearer $ADMIN_TOKEN" http://ADDR/admin/limits/ann
  curl -s -H "Authorization: Bearer $ADMIN_TOKEN" -d n=1 http://ADDR/admin/limits/ann
  curl -s -H "Authorization: Bearer $ADMIN_TOKEN" -X DELETE http://ADDR/admin/limits/ann
  # nobody else can
  curl -s http://ADDR/admin/limits/ann
`

func main() {
	token := os.Getenv("ADMIN_TOKEN")
	if len(token) < 16 {
		log.Fatal("set ADMIN_TOKEN to a secret of 16 characters or more")
	}
	store := memstore.New() // with several instances, resilient.New(...): all have the same states
	if err := demo.Serve(newHandler(token, store), try); err != nil {
		log.Fatal(err)
	}
}
