// Hybrid limits requests by user (JSON Web Token) and by address, and combines the
// two keys in several ways.
//
//	go run -C _examples ./hybrid
//
// The program issues its own tokens, signed with a secret that exists only in memory.
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

// secret signs the tokens. It is random, so the source code contains no secret. One
// Text has 26 bytes, and HS256 needs 32.
var secret = []byte(rand.Text() + rand.Text())

// The key functions: each identifies the client in another way.
var (
	// The address. X-Forwarded-For is used if the connection comes from this machine,
	// so that curl can act as several clients.
	ip = keyfunc.XForwardedFor(keyfunc.Proxies("127.0.0.0/8", "::1/128"))

	// The user: the sub claim of a bearer token with a valid signature.
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

	// Both: 5 a minute for the user at all addresses, and 8 a minute for the address
	// with all users. Both limits are checked in one decision: if one denies, the other
	// is not charged. A request without a valid token is answered 401 and is charged to
	// its address. The address is checked first, so the tokens of an address over its
	// limit are not verified.
	mux.Handle("GET /orders", nethttplimit.New(perIP, ip, gate.And(perUser, user))(answer("your orders")))

	// Either: each user has 3 requests a minute, and all requests of an address without
	// a valid token share 3 a minute.
	mux.Handle("GET /search", nethttplimit.New(perClient, userOrIP)(answer("found")))

	// The pair: a user has 2 requests a minute at each address, so a phone with a fault
	// does not use up the limit of the laptop.
	mux.Handle("PUT /draft", nethttplimit.New(perDevice, userAtIP)(answer("saved")))

	// A limit by address in front of all routes, because a server needs more time to
	// verify the signature of a forged token than a client needs to send one.
	return nethttplimit.New(flood, ip)(mux)
}

// issueToken returns a token for any name, because this is a demo.
func issueToken(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("user")
	if name == "" {
		http.Error(w, "a user is missing: /token?user=alice", http.StatusBadRequest)
		return
	}
	now := time.Now()
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{
		Subject:   name,
		IssuedAt:  jwt.NewNumericDate(now),
		ExpiresAt: jwt.NewNumericDate(now.Add(time.Hour)), // required: JWTSubject rejects a token without an expiry
	}).SignedString(secret)
	if err != nil {
		http.Error(w, "the token could not be signed", http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, token)
}

// verificationKey returns the key with which a token must be signed. An application
// with several keys would look up the kid in the header of the token.
func verificationKey(*jwt.Token) (any, error) { return secret, nil }

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, text) }
}

const try = `
  ALICE=$(curl -s -X POST "http://ADDR/token?user=alice")
  BOB=$(curl -s -X POST "http://ADDR/token?user=bob")
  curl -i -H "Authorization: Bearer $ALICE" http://ADDR/orders
  # alice has 5 requests a minute from all addresses together
  for i in $(seq 5); do curl -s -o /dev/null -w '%{http_code} ' -H "Authorization: Bearer $ALICE" -H "X-Forwarded-For: 203.0.113.$i" http://ADDR/orders; done; echo
  # bob has his own 5
  curl -i -H "Authorization: Bearer $BOB" http://ADDR/orders
  # without a token: 401
  curl -i http://ADDR/orders
  # search: counted by user with a token, otherwise by address
  for i in $(seq 4); do curl -s -o /dev/null -w '%{http_code} ' http://ADDR/search; done; echo
  curl -i -H "Authorization: Bearer $ALICE" http://ADDR/search
  # save: 2 a minute for alice at each address
  for i in $(seq 3); do curl -s -o /dev/null -w '%{http_code} ' -X PUT -H "Authorization: Bearer $ALICE" http://ADDR/draft; done; echo
  curl -i -X PUT -H "Authorization: Bearer $ALICE" -H 'X-Forwarded-For: 203.0.113.7' http://ADDR/draft
`

func main() {
	if err := demo.Serve(newHandler(), try); err != nil {
		log.Fatal(err)
	}
}
