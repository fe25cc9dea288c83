package ginlimit_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/ginlimit"
	"github.com/weir-go/weir/keyfunc"
)

// A header is a writer that another middleware puts in place of c.Writer.
type header struct{ gin.ResponseWriter }

func (w header) Write(b []byte) (int, error) { return w.ResponseWriter.Write(b) }

// Every way in which a request of Gin can end.
func TestNew_RefundIf(t *testing.T) {
	problem := errors.New("problem")
	// answers returns an error middleware that answers with f.
	answers := func(f func(c *gin.Context)) gin.HandlerFunc {
		return func(c *gin.Context) {
			c.Next()
			if len(c.Errors) > 0 && !c.Writer.Written() {
				f(c)
			}
		}
	}
	asJSON := answers(func(c *gin.Context) { c.JSON(http.StatusUnprocessableEntity, gin.H{"error": "x"}) })
	for _, c := range []struct {
		name    string
		outer   gin.HandlerFunc // around the gate
		inner   gin.HandlerFunc // inside the gate
		handler gin.HandlerFunc
		status  int    // of the answer
		asked   string // the statuses that RefundIf gets; empty if nothing is refunded
	}{
		{name: "a redirect", handler: func(c *gin.Context) { c.Redirect(302, "/there") }, status: 302, asked: "[302]"},
		{name: "abort", handler: func(c *gin.Context) { c.AbortWithStatus(403) }, status: 403, asked: "[403]"},
		{name: "abort before the handler", inner: func(c *gin.Context) { c.AbortWithStatus(401) }, handler: ok, status: 401, asked: "[401]"},
		{name: "abort with an error", handler: func(c *gin.Context) { _ = c.AbortWithError(409, problem) }, status: 409, asked: "[409]"},
		{
			name: "an error that an outer middleware answers", handler: func(c *gin.Context) { _ = c.Error(problem) },
			outer: answers(func(c *gin.Context) { c.AbortWithStatus(502) }), status: 502, asked: "[502]",
		},
		{name: "an error with a status", handler: func(c *gin.Context) { _ = c.Error(problem); c.Status(400) }, status: 400},
		{name: "a panic", handler: func(c *gin.Context) { c.Status(204); panic(problem) }, outer: gin.CustomRecoveryWithWriter(nil, func(c *gin.Context, _ any) {
			c.AbortWithStatus(503)
		}), status: 503, asked: "[500]"},
		{
			name: "a panic recovered inside the gate", handler: func(*gin.Context) { panic(problem) },
			inner:  gin.CustomRecoveryWithWriter(nil, func(c *gin.Context, _ any) { c.AbortWithStatus(503) }),
			status: 503, asked: "[503]",
		},
		{name: "another writer", inner: func(c *gin.Context) { c.Writer = header{c.Writer} }, handler: func(c *gin.Context) { c.String(404, "x") }, status: 404, asked: "[404]"},
		{
			name: "another writer and an error", inner: func(c *gin.Context) { c.Writer = header{c.Writer} },
			handler: func(c *gin.Context) { _ = c.Error(problem) }, outer: asJSON, status: 422, asked: "[422]",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			pass := func(*gin.Context) {}
			if c.outer == nil {
				c.outer = pass
			}
			if c.inner == nil {
				c.inner = pass
			}
			l := times(5)
			var statuses []int
			server := httptest.NewServer(engine(c.handler, c.outer, ginlimit.New(l, client, refund(&statuses)), c.inner))
			browser := *server.Client()
			browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			resp, err := browser.Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body) // closing earlier would hang up
			resp.Body.Close()
			server.Close()
			want, remaining := c.asked, 5
			if want == "" {
				want, remaining = "[]", 4
			}
			if resp.StatusCode != c.status || fmt.Sprint(statuses) != want || left(t, l) != remaining {
				t.Errorf("status %d, RefundIf got %v, %d left; want %d, %s and %d", resp.StatusCode, statuses, left(t, l), c.status, want, remaining)
			}
		})
	}
}

// Settle takes every context that a handler may pass on, and a copy of the *gin.Context after the
// request.
func TestNew_Settle(t *testing.T) {
	for _, fallback := range []bool{false, true} {
		l := times(100)
		var kept *gin.Context
		e := engine(func(c *gin.Context) {
			kept = c.Copy()
			if err := gate.Settle(c, 10); err != nil || left(t, l) != 90 {
				t.Errorf("fallback %v: %v, %d left, want 90", fallback, err, left(t, l))
			}
			if err := gate.Settle(c.Request.Context(), 20); err != nil || left(t, l) != 80 {
				t.Errorf("fallback %v: %v, %d left, want 80", fallback, err, left(t, l))
			}
		}, ginlimit.New(l, keyfunc.RemoteIP()))
		e.ContextWithFallback = fallback
		get(e)
		get(engine(ok)) // another request
		if err := gate.Settle(kept, 30); err != nil || left(t, l) != 70 {
			t.Errorf("fallback %v: after the request %v, %d left, want 70", fallback, err, left(t, l))
		}
	}
}
