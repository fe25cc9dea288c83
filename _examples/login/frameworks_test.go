package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	echo4 "github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// right reports whether a request has the password.
func right(r *http.Request) bool { return r.Header.Get("Password") == "right" }

// The handlers of Echo return an error, which Echo writes when the middleware has returned.
var frameworks = map[string]func(limit func(http.Handler) http.Handler) http.Handler{
	"ServeMux": func(limit func(http.Handler) http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/", limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !right(r) {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})))
		return mux
	},
	"ServeMux that writes the errors of its handlers": func(limit func(http.Handler) http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
			failed := false
			limit(http.HandlerFunc(func(inner http.ResponseWriter, r *http.Request) {
				if w = inner; right(r) {
					w.WriteHeader(http.StatusNoContent)
				} else {
					failed = true
				}
			})).ServeHTTP(w, r)
			if failed {
				w.WriteHeader(http.StatusUnauthorized)
			}
		})
		return mux
	},
	"Echo v4": func(limit func(http.Handler) http.Handler) http.Handler {
		e := echo4.New()
		e.Use(echo4.WrapMiddleware(limit))
		e.GET("/", func(c echo4.Context) error {
			if !right(c.Request()) {
				return echo4.NewHTTPError(http.StatusUnauthorized, "wrong password")
			}
			return c.NoContent(http.StatusNoContent)
		})
		return e
	},
	"Echo v5": func(limit func(http.Handler) http.Handler) http.Handler {
		e := echo5.New()
		e.Use(echo5.WrapMiddleware(limit))
		e.GET("/", func(c *echo5.Context) error {
			if !right(c.Request()) {
				return echo5.NewHTTPError(http.StatusUnauthorized, "wrong password")
			}
			return c.NoContent(http.StatusNoContent)
		})
		return e
	},
}

// A limit that counts failures counts those that a framework writes after the middleware.
func TestNetHTTP_RefundIf_Frameworks(t *testing.T) {
	for name, build := range frameworks {
		t.Run(name, func(t *testing.T) {
			h := build(nethttplimit.Limit(memstore.New(), core.SlidingLog("login", core.PerHour(2)), keyfunc.RemoteIP(), gate.RefundIf(func(status int) bool { return status < 400 })))
			status := func(password string) int {
				r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
				r.Header.Set("Password", password)
				h.ServeHTTP(w, r)
				return w.Code
			}
			for range 20 {
				if got := status("right"); got != 204 {
					t.Fatalf("a right password: got status %d", got)
				}
			}
			for i, want := range []int{401, 401, 429, 429} {
				if got := status("wrong"); got != want {
					t.Errorf("wrong password %d: got status %d, want %d", i, got, want)
				}
			}
		})
	}
}
