package ginlimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/ginlimit"
	"github.com/weir-go/weir/keyfunc"
)

// The parameters of a route of Gin are those of its context, which ginlimit passes on.
func TestPathValue_Gin(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	l := core.Must(core.New(memstore.New(), core.FixedWindow("tenant", core.PerMinute(1))))
	router := gin.New()
	router.GET("/:tenant", ginlimit.New(l, keyfunc.PathValue("tenant")), func(c *gin.Context) { c.Status(http.StatusOK) })
	router.GET("/:tenant/users", ginlimit.New(l, keyfunc.PathValue("tenants")), func(c *gin.Context) { c.Status(http.StatusOK) })
	for _, c := range []struct {
		path   string
		status int
	}{{"/acme", 200}, {"/acme", 429}, {"/other", 200}, {"/acme/users", 400}} {
		w := httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest("GET", c.path, nil))
		if w.Code != c.status {
			t.Errorf("GET %s: status %d, want %d", c.path, w.Code, c.status)
		}
	}
}
