// Gin limits an API on Gin: the whole API by address, and single routes more
// strictly, by address and by user. One of them has a custom answer.
//
//	go run -C _examples ./gin
package main

import (
	"context"
	"log"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/ginlimit"
	"github.com/weir-go/weir/keyfunc"
)

func newRouter() http.Handler {
	store := memstore.New()

	// The address at the other end of the connection. Behind a proxy use
	// keyfunc.XForwardedFor, or ginlimit.ClientIP if SetTrustedProxies is called:
	// otherwise Gin uses the address that any client states in a header field.
	ip := keyfunc.RemoteIP()

	// Old clients also receive the X-RateLimit-* fields. Options are values: all
	// limits of the application share this one.
	fields := gate.Headers(gate.IETFDraft, gate.XRateLimit)

	router := gin.New()

	// For all routes below this line.
	router.Use(ginlimit.Limit(store, core.TokenBucket("api", core.PerMinute(20)), ip, fields,
		gate.Skip(isHealthCheck),
		gate.ExposeHeaders(), // scripts of other origins may read the fields
	))
	router.GET("/healthz", func(c *gin.Context) { c.Status(http.StatusNoContent) })
	router.GET("/", hello)

	// For one route, by address, in addition to the limit for all routes.
	router.POST("/login", ginlimit.Limit(store, core.SlidingLog("login", core.PerMinute(3)), ip, fields, ginlimit.OnDenied(tooManyLogins)), func(c *gin.Context) {
		c.JSON(http.StatusOK, gin.H{"message": "Welcome back!"})
	})

	// For one route, by user. authenticate runs first, because it stores the user
	// that the limiter reads.
	router.GET("/report", authenticate, ginlimit.Limit(store, core.SlidingLog("report", core.PerMinute(2)), keyfunc.ContextSubject("user"), fields), func(c *gin.Context) {
		c.JSON(http.StatusOK, gin.H{"report for": c.GetString("user")})
	})
	return router
}

// hello shows how a handler reads the decision about its request.
func hello(c *gin.Context) {
	d, ok := gate.FromContext(c)
	if !ok { // the request was admitted without a decision
		c.JSON(http.StatusOK, gin.H{"message": "Hello!"})
		return
	}
	c.JSON(http.StatusOK, gin.H{"message": "Hello!", "remaining": d.State(0).Remaining})
}

// tooManyLogins replaces the answer to a request over the limit. The adapter has
// aborted the request and set the header fields, including Retry-After.
func tooManyLogins(c *gin.Context, d core.Decision) {
	seconds, _ := gate.RetryAfter(d)
	c.JSON(http.StatusTooManyRequests, gin.H{
		"error":         "too many attempts to sign in",
		"retry_seconds": seconds,
	})
}

// authenticate stands for the authentication of your application. It may store a
// name, as here, a *jwt.Token, or the claims of a token: ContextSubject reads all
// of them.
func authenticate(c *gin.Context) {
	user, ok := map[string]string{"key-of-alice": "alice", "key-of-bob": "bob"}[c.GetHeader("X-API-Key")]
	if !ok {
		c.AbortWithStatusJSON(http.StatusUnauthorized, gin.H{"error": "unknown API key"})
		return
	}
	c.Set("user", user)
}

func isHealthCheck(_ context.Context, r *http.Request) bool { return r.URL.Path == "/healthz" }

const try = `
  curl -i http://ADDR/; echo
  # sign in: 3 a minute, then the answer of tooManyLogins
  for i in $(seq 4); do curl -s -i -X POST http://ADDR/login; echo; done
  # reports: 2 a minute for each user
  for i in $(seq 3); do curl -s -o /dev/null -w '%{http_code} ' -H 'X-API-Key: key-of-alice' http://ADDR/report; done; echo
  curl -i -H 'X-API-Key: key-of-bob' http://ADDR/report; echo
  # all routes together: 20 a minute
  for i in $(seq 20); do curl -s -o /dev/null -w '%{http_code} ' http://ADDR/; done; echo
  # except this one
  curl -i http://ADDR/healthz
`

func main() {
	gin.SetMode(gin.ReleaseMode) // no list of routes at start
	if err := demo.Serve(newRouter(), try); err != nil {
		log.Fatal(err)
	}
}
