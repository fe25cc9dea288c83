package echolimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/echolimit/v5"
	"github.com/weir-go/weir/keyfunc"
)

// keyfunc.PathValue finds the parameters of Echo.
func TestNew_PathValue(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.SlidingLog("tenant", core.PerHour(1))))
	e := echo.New()
	e.GET("/tenants/:tenant", func(c *echo.Context) error { return c.NoContent(http.StatusNoContent) }, echolimit.New(l, keyfunc.PathValue("tenant")))
	for i, c := range []struct {
		path   string
		status int
	}{{"/tenants/a", 204}, {"/tenants/b", 204}, {"/tenants/a", 429}} {
		w := httptest.NewRecorder()
		if e.ServeHTTP(w, httptest.NewRequest("GET", c.path, nil)); w.Code != c.status {
			t.Errorf("request %d: the status is %d, want %d", i, w.Code, c.status)
		}
	}
}
