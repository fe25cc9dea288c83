package ginlimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/ginlimit"
	"github.com/weir-go/weir/keyfunc"
)

// One limit for each address, in memory.
func ExamplePerIP() {
	router := gin.New()
	router.Use(ginlimit.PerIP(core.PerMinute(1)))
	router.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "hello\n") })

	for _, address := range []string{"203.0.113.9:4711", "203.0.113.9:4712", "198.51.100.7:4711"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = address
		w := httptest.NewRecorder()
		router.ServeHTTP(w, r)
		fmt.Println(address, w.Code)
	}
	// Output:
	// 203.0.113.9:4711 200
	// 203.0.113.9:4712 429
	// 198.51.100.7:4711 200
}

// A limit for all routes, and a stricter one for the login.
func ExampleLimit() {
	store := memstore.New()

	router := gin.New()
	router.Use(ginlimit.Limit(store, core.TokenBucket("api", core.PerMinute(60)), keyfunc.RemoteIP()))
	router.POST("/login", ginlimit.Limit(store, core.SlidingLog("login", core.PerHour(1)), keyfunc.RemoteIP(), gate.FailClosed()), func(c *gin.Context) {
		c.String(http.StatusOK, "welcome")
	})

	for range 2 {
		w := httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest("POST", "/login", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// 200 "api";r=59;t=59, "login";r=0;t=3600
	// 429 "api";r=58;t=58, "login";r=0;t=3600
}

// The application's own answer to a denied request. The middleware has aborted the request and set
// the header fields.
func ExampleOnDenied() {
	store := memstore.New()
	router := gin.New()
	router.Use(ginlimit.Limit(store, core.SlidingLog("api", core.PerMinute(1)), keyfunc.RemoteIP(), ginlimit.OnDenied(func(c *gin.Context, _ core.Decision) {
		c.JSON(http.StatusTooManyRequests, gin.H{"error": "slow down", "retry": c.Writer.Header().Get("Retry-After")})
	})))
	router.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "hello") })

	for range 2 {
		w := httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 hello
	// 429 {"error":"slow down","retry":"60"}
}

// Gin finds the address of the client, with the trusted proxies of the engine.
func ExampleClientIP() {
	store := memstore.New()
	router := gin.New()
	if err := router.SetTrustedProxies([]string{"192.0.2.0/24"}); err != nil {
		panic(err)
	}
	router.Use(ginlimit.Limit(store, core.SlidingLog("api", core.PerMinute(10)), ginlimit.ClientIP()))
	router.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "hello") })

	for _, client := range []string{"198.51.100.7", "198.51.100.8", "198.51.100.7"} {
		r := httptest.NewRequest("GET", "/", nil) // from 192.0.2.1
		r.Header.Set("X-Forwarded-For", client)
		w := httptest.NewRecorder()
		router.ServeHTTP(w, r)
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
	router := gin.New()
	router.Use(ginlimit.Limit(store, core.SlidingLog("api", core.PerMinute(10)), keyfunc.ContextSubject("user"), ginlimit.OnRejected(func(c *gin.Context, rejection *gate.Rejection) {
		if rejection.Problem.Status == http.StatusUnauthorized {
			c.Redirect(http.StatusSeeOther, "/login")
		}
	})))
	router.GET("/orders", func(c *gin.Context) { c.String(http.StatusOK, "your orders") })

	w := httptest.NewRecorder()
	router.ServeHTTP(w, httptest.NewRequest("GET", "/orders", nil))
	fmt.Println(w.Code, w.Header().Get("Location"))
	// Output: 303 /login
}

// A handler limits the invitations to one address of mail, which only the handler knows.
func ExampleCheck() {
	store := memstore.New()
	perInvited := core.Must(core.New(store, core.SlidingLog("invited", core.PerDay(1))))
	router := gin.New()
	router.POST("/invite", func(c *gin.Context) {
		mail := c.Query("mail") // parsed and verified
		if !ginlimit.Check(c, perInvited, mail, gate.FailClosed()) {
			return // the response has been written
		}
		c.String(http.StatusOK, "invited %s\n", mail)
	})

	for range 2 {
		r := httptest.NewRequest("POST", "/invite?mail=ann@example.com", nil)
		r.Header.Set("Accept", "text/plain")
		w := httptest.NewRecorder()
		router.ServeHTTP(w, r)
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 200 invited ann@example.com
	// 429 Policy "invited" allows 1 request per 86400 s. Retry in 86400 s.
}

// A handler asks two limiters in one decision of package core, and responds as the middleware does.
func ExampleDeny() {
	store := memstore.New()
	perShop := core.Must(core.New(store, core.SlidingLog("shop", core.PerMinute(10))))
	perArticle := core.Must(core.New(store, core.SlidingLog("article", core.PerMinute(1))))
	router := gin.New()
	router.POST("/orders", func(c *gin.Context) {
		d, err := core.AllowTogether(c.Request.Context(),
			core.Ask{Limiter: perShop, Key: "shop 7", Cost: 1},
			core.Ask{Limiter: perArticle, Key: "article 42", Cost: 1})
		if err != nil || !d.Allowed {
			ginlimit.Deny(c, d) // 503 after an error of the store
			return
		}
		c.String(http.StatusOK, "ordered\n")
	})

	for range 2 {
		r := httptest.NewRequest("POST", "/orders", nil)
		r.Header.Set("Accept", "text/plain")
		w := httptest.NewRecorder()
		router.ServeHTTP(w, r)
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 200 ordered
	// 429 Policy "article" allows 1 request per 60 s. Retry in 60 s.
}
