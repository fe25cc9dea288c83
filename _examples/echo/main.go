// Echo limits an API on Echo v5: the whole API by address, and single routes more
// strictly, by address and by user. A custom HTTPErrorHandler answers denials. The
// program in the directory v4 shows the differences in Echo v4, which gets security
// fixes only, until the end of 2027.
//
//	go run -C _examples ./echo
package main

import (
	"context"
	"errors"
	"log"
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/echolimit/v5"
	"github.com/weir-go/weir/examples/internal/demo"
	"github.com/weir-go/weir/keyfunc"
)

func newRouter() http.Handler {
	store := memstore.New()

	// The address at the other end of the connection. Behind a proxy use
	// keyfunc.XForwardedFor, or echolimit.RealIP if e.IPExtractor is set.
	ip := keyfunc.RemoteIP()

	// Old clients also receive the X-RateLimit-* fields. Options are values: all
	// limits of the application share this one.
	fields := gate.Headers(gate.IETFDraft, gate.XRateLimit)

	e := echo.New()
	e.HTTPErrorHandler = handleError

	// For all routes.
	e.Use(echolimit.Limit(store, core.TokenBucket("api", core.PerMinute(20)), ip, fields,
		gate.Skip(isHealthCheck),
		gate.ExposeHeaders(), // scripts of other origins may read the fields
	))
	e.GET("/healthz", func(c *echo.Context) error { return c.NoContent(http.StatusNoContent) })
	e.GET("/", hello)

	// For one route, by address, in addition to the limit for all routes.
	e.POST("/login", func(c *echo.Context) error {
		return c.JSON(http.StatusOK, map[string]any{"message": "Welcome back!"})
	}, echolimit.Limit(store, core.SlidingLog("login", core.PerMinute(3)), ip, fields, echolimit.OnDenied(tooManyLogins)))

	// For one route, by user. authenticate runs first, because it stores the user
	// that the limiter reads.
	e.GET("/report", func(c *echo.Context) error {
		return c.JSON(http.StatusOK, map[string]any{"report for": c.Get("user")})
	}, authenticate, echolimit.Limit(store, core.SlidingLog("report", core.PerMinute(2)), keyfunc.ContextSubject("user"), fields))
	return e
}

// handleError answers denied and rejected requests. The limiter has set the other
// header fields; it returns a *gate.Rejection and writes no answer. Without a custom
// handler, Echo's default handler sends the problem document as application/json.
func handleError(c *echo.Context, err error) {
	var rejection *gate.Rejection
	if errors.As(err, &rejection) {
		// Count denials here, or send your own document instead: c.JSON(p.Status, ...).
		p := rejection.Problem
		c.Response().Header().Set(echo.HeaderContentType, gate.ProblemMediaType)
		log.Printf("%s %s: %d: %s", c.Request().Method, c.Path(), p.Status, p)
	}
	sendError(c, err)
}

var sendError = echo.DefaultHTTPErrorHandler(false)

// hello shows how a handler reads the decision about its request.
func hello(c *echo.Context) error {
	d, ok := gate.FromContext(c.Request().Context())
	if !ok { // the request was admitted without a decision
		return c.JSON(http.StatusOK, map[string]any{"message": "Hello!"})
	}
	return c.JSON(http.StatusOK, map[string]any{"message": "Hello!", "remaining": d.State(0).Remaining})
}

// tooManyLogins replaces the answer to a request over the limit. The adapter has
// set the header fields, including Retry-After.
func tooManyLogins(c *echo.Context, d core.Decision) error {
	seconds, _ := gate.RetryAfter(d)
	return c.JSON(http.StatusTooManyRequests, map[string]any{
		"error":         "too many attempts to sign in",
		"retry_seconds": seconds,
	})
}

// authenticate stands for the authentication of your application. It may store a
// name, as here, a *jwt.Token, or the claims of a token: ContextSubject reads all
// of them.
func authenticate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c *echo.Context) error {
		user, ok := map[string]string{"key-of-alice": "alice", "key-of-bob": "bob"}[c.Request().Header.Get("X-API-Key")]
		if !ok {
			return echo.NewHTTPError(http.StatusUnauthorized, "unknown API key")
		}
		c.Set("user", user)
		return next(c)
	}
}

func isHealthCheck(_ context.Context, r *http.Request) bool { return r.URL.Path == "/healthz" }

const try = `
  curl -i http://ADDR/
  # sign in: 3 a minute, then the answer of tooManyLogins
  for i in $(seq 4); do curl -s -i -X POST http://ADDR/login; done
  # reports: 2 a minute for each user; the denial goes through the HTTPErrorHandler
  for i in $(seq 3); do curl -s -i -H 'X-API-Key: key-of-alice' http://ADDR/report; done
  curl -i -H 'X-API-Key: key-of-bob' http://ADDR/report
  # all routes together: 20 a minute
  for i in $(seq 20); do curl -s -o /dev/null -w '%{http_code} ' http://ADDR/; done; echo
  # except this one
  curl -i http://ADDR/healthz
`

func main() {
	if err := demo.Serve(newRouter(), try); err != nil {
		log.Fatal(err)
	}
}
