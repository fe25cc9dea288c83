package echolimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/echolimit/v5"
	"github.com/weir-go/weir/keyfunc"
)

// One limit for each address, in memory.
func ExamplePerIP() {
	e := echo.New()
	e.Use(echolimit.PerIP(core.PerMinute(1)))
	e.GET("/", func(c *echo.Context) error { return c.String(http.StatusOK, "hello\n") })

	for _, address := range []string{"203.0.113.9:4711", "203.0.113.9:4712", "198.51.100.7:4711"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = address
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		fmt.Println(address, w.Code)
	}
	// Output:
	// 203.0.113.9:4711 200
	// 203.0.113.9:4712 429
	// 198.51.100.7:4711 200
}

// A limit for all routes. Echo's own error handler sends the problem document.
func ExampleLimit() {
	store := memstore.New()
	e := echo.New()
	e.Use(echolimit.Limit(store, core.SlidingLog("api", core.PerMinute(1)), keyfunc.RemoteIP()))
	e.GET("/", func(c *echo.Context) error { return c.String(http.StatusOK, "hello\n") })

	for range 2 {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
		fmt.Print(w.Body)
	}
	// Output:
	// 200 "api";r=0;t=60
	// hello
	// 429 "api";r=0;t=60
	// {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"Policy \"api\" allows 1 request per 60 s. Retry in 60 s.","instance":"/","violated-policies":["api"]}
}

// The error handler of an application chooses the media type: here that of RFC 9457, with all members
// of the document.
func ExampleLimit_errorHandler() {
	store := memstore.New()
	e := echo.New()
	e.Use(echolimit.Limit(store, core.SlidingLog("api", core.PerMinute(1)), keyfunc.RemoteIP()))
	e.GET("/", func(c *echo.Context) error { return c.String(http.StatusOK, "hello\n") })
	byDefault := echo.DefaultHTTPErrorHandler(false)
	e.HTTPErrorHandler = func(c *echo.Context, err error) {
		var rejection *gate.Rejection
		if errors.As(err, &rejection) {
			c.Response().Header().Set("Content-Type", gate.ProblemMediaType)
		}
		byDefault(c, err)
	}

	for range 2 {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header().Get("Content-Type"))
	}
	// Output:
	// 200 text/plain; charset=UTF-8
	// 429 application/problem+json
}

// The application's own answer to a denied request.
func ExampleOnDenied() {
	store := memstore.New()
	e := echo.New()
	e.Use(echolimit.Limit(store, core.SlidingLog("api", core.PerMinute(1)), keyfunc.RemoteIP(), echolimit.OnDenied(func(c *echo.Context, _ core.Decision) error {
		return c.JSON(http.StatusTooManyRequests, map[string]any{"error": "slow down"})
	})))
	e.GET("/", func(c *echo.Context) error { return c.String(http.StatusOK, "hello\n") })

	for range 2 {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 200 hello
	// 429 {"error":"slow down"}
}

// Echo finds the address of the client, with the IPExtractor of the application.
func ExampleRealIP() {
	store := memstore.New()
	e := echo.New()
	e.IPExtractor = echo.ExtractIPFromXFFHeader() // believes private addresses only
	e.Use(echolimit.Limit(store, core.SlidingLog("api", core.PerMinute(10)), echolimit.RealIP()))
	e.GET("/", func(c *echo.Context) error { return c.String(http.StatusOK, "hello\n") })

	for _, client := range []string{"198.51.100.7", "198.51.100.8", "198.51.100.7"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "10.0.0.1:1234"
		r.Header.Set("X-Forwarded-For", client)
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		fmt.Println(client, w.Header().Get("RateLimit"))
	}
	// Output:
	// 198.51.100.7 "api";r=9;t=60
	// 198.51.100.8 "api";r=9;t=60
	// 198.51.100.7 "api";r=8;t=60
}

// A redirect to the login for requests of users who have not signed in. Other rejections keep their
// status.
func ExampleOnRejected() {
	store := memstore.New()
	e := echo.New()
	e.Use(echolimit.Limit(store, core.SlidingLog("api", core.PerMinute(10)), keyfunc.ContextSubject("user"), echolimit.OnRejected(func(c *echo.Context, rejection *gate.Rejection) error {
		if rejection.Problem.Status == http.StatusUnauthorized {
			return c.Redirect(http.StatusSeeOther, "/login")
		}
		return rejection // the response of this package
	})))
	e.GET("/orders", func(c *echo.Context) error { return c.String(http.StatusOK, "your orders") })

	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest("GET", "/orders", nil))
	fmt.Println(w.Code, w.Header().Get("Location"))
	// Output: 303 /login
}

// A handler limits the invitations to one address of mail, which only the handler knows.
func ExampleCheck() {
	store := memstore.New()
	perInvited := core.Must(core.New(store, core.SlidingLog("invited", core.PerDay(1))))
	e := echo.New()
	e.POST("/invite", func(c *echo.Context) error {
		mail := c.QueryParam("mail") // parsed and verified
		if err := echolimit.Check(c, perInvited, mail, gate.FailClosed()); err != nil {
			return err // the HTTPErrorHandler writes the response
		}
		return c.String(http.StatusOK, "invited "+mail)
	})

	for range 2 {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("POST", "/invite?mail=ann@example.com", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// 200 "invited";r=0;t=86400
	// 429 "invited";r=0;t=86400
}

// A handler asks two limiters in one decision of package core, and responds as the middleware does.
func ExampleDeny() {
	store := memstore.New()
	perShop := core.Must(core.New(store, core.SlidingLog("shop", core.PerMinute(10))))
	perArticle := core.Must(core.New(store, core.SlidingLog("article", core.PerMinute(1))))
	e := echo.New()
	e.POST("/orders", func(c *echo.Context) error {
		d, err := core.AllowTogether(c.Request().Context(),
			core.Ask{Limiter: perShop, Key: "shop 7", Cost: 1},
			core.Ask{Limiter: perArticle, Key: "article 42", Cost: 1})
		if err != nil || !d.Allowed {
			return echolimit.Deny(c, d) // 503 after an error of the store
		}
		return c.NoContent(http.StatusNoContent)
	})

	for range 2 {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("POST", "/orders", nil))
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// 204 ""
	// 429 "60"
}
