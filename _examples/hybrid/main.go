// Hybrid: limits by user (JSON Web Token) and by address, and the ways to
// combine them.
//
//	go run -C _examples ./hybrid
//
// It issues its own tokens, signed with a secret that ends with the process.
package main

import (
	"crypto/rand"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// secret signs the tokens. It is random, so there is nothing to leak from here. One
// Text has 26 bytes, and HS256 needs 32.
var secret = []byte(rand.Text() + rand.Text())

// Who is asking? Each of these answers in its own way.
var (
	// The address. X-Forwarded-For is believed from proxies on this machine, so
	// that curl can play several clients.
	ip = keyfunc.XForwardedFor(keyfunc.Proxies("127.0.0.0/8", "::1/128"))

	// The user: the sub of a bearer token whose signature is good.
	user = keyfunc.JWTSubject(verificationKey, []string{"HS256"})

	// The user if the request has a valid token, else the address.
	userOrIP = keyfunc.FirstOf(user, ip)

	// Every pair of a user and an address.
	userAtIP = keyfunc.Join(user, ip)
)

func newHandler() http.Handler {
	store := memstore.New()
	limiter := func(r core.Rule) *core.Limiter { return core.Must(core.New(store, r)) }
	flood := limiter(core.TokenBucket("flood", core.PerSecond(50)))
	perUser := limiter(core.SlidingLog("user", core.PerMinute(5)))
	perIP := limiter(core.SlidingLog("address", core.PerMinute(8)))
	perClient := limiter(core.SlidingLog("client", core.PerMinute(3)))
	perDevice := limiter(core.SlidingLog("device", core.PerMinute(2)))
	tokens := limiter(core.SlidingLog("token", core.PerMinute(10)))

	mux := http.NewServeMux()
	mux.Handle("POST /token", nethttplimit.New(tokens, ip)(http.HandlerFunc(issueToken)))

	// Both: 5 a minute for the user, wherever it is, and 8 a minute for the
	// address, whoever is there. It is one decision: whichever says no, nothing is
	// taken from the other. A request without a valid token gets a 401 and is charged
	// to its address, which comes first: beyond its limit tokens are not even verified.
	mux.Handle("GET /orders", nethttplimit.New(perIP, ip, gate.And(perUser, user))(answer("your orders")))

	// Either: a user has 3 a minute of its own, and all that is not signed in
	// shares the 3 of its address.
	mux.Handle("GET /search", nethttplimit.New(perClient, userOrIP)(answer("found")))

	// The pair: a user has 2 a minute at each address, so a phone that runs wild
	// does not lock out the laptop.
	mux.Handle("PUT /draft", nethttplimit.New(perDevice, userAtIP)(answer("saved")))

	// In front of everything a cheap limit, because it costs more to check the
	// signature of a bad token than to send one.
	return nethttplimit.New(flood, ip)(mux)
}

// issueToken signs in whoever asks, for this is a demo.
func issueToken(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("user")
	if name == "" {
		http.Error(w, "say who: /token?user=alice", http.StatusBadRequest)
		return
	}
	now := time.Now()
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		Subject:   name,
		IssuedAt:  jwt.NewNumericDate(now),
		ExpiresAt: jwt.NewNumericDate(now.Add(time.Hour)), // required: a token without an end is refused
	}).SignedString(secret)
	if err != nil {
		http.Error(w, "no token today", http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, token)
}

// verificationKey is the key that a token must be signed with. An application
// with several keys looks up the kid in t.Header here.
func verificationKey(*jwt.Token) (any, error) { return secret, nil }

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, text) }
}

const try = `
  ALICE=$(curl -s -X POST "http://ADDR/token?user=alice")
  BOB=$(curl -s -X POST "http://ADDR/token?user=bob")
  curl -i -H "Authorization: Bearer $ALICE" http://ADDR/orders
  # alice has 5 a minute, from whatever address
  for i in $(seq 5); do curl -s -o /dev/null -w '%{http_code} ' -H "Authorization: Bearer $ALICE" -H "X-Forwarded-For: 203.0.113.$i" http://ADDR/orders; done; echo
  # bob has his own
  curl -i -H "Authorization: Bearer $BOB" http://ADDR/orders
  # nobody: 401
  curl -i http://ADDR/orders
  # searching: signed in as a user, else as an address
  for i in $(seq 4); do curl -s -o /dev/null -w '%{http_code} ' http://ADDR/search; done; echo
  curl -i -H "Authorization: Bearer $ALICE" http://ADDR/search
  # saving: 2 a minute for alice at each address
  for i in $(seq 3); do curl -s -o /dev/null -w '%{http_code} ' -X PUT -H "Authorization: Bearer $ALICE" http://ADDR/draft; done; echo
  curl -i -X PUT -H "Authorization: Bearer $ALICE" -H 'X-Forwarded-For: 203.0.113.7' http://ADDR/draft
`

func main() {
	if err := demo.Serve(newHandler(), try); err != nil {
		log.Fatal(err)
	}
}
