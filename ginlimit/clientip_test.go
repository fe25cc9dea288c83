package ginlimit_test

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/ginlimit"
)

// The first request of an engine that trusts every peer logs a warning.
func TestClientIP_Warning(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	for name, c := range map[string]struct {
		configure func(*gin.Engine) error
		want      int
	}{
		"default":              {func(*gin.Engine) error { return nil }, 1},
		"all IPv6":             {func(e *gin.Engine) error { return e.SetTrustedProxies([]string{"::/0"}) }, 1},
		"nobody":               {func(e *gin.Engine) error { return e.SetTrustedProxies(nil) }, 0},
		"a proxy":              {func(e *gin.Engine) error { return e.SetTrustedProxies([]string{"192.0.2.0/24"}) }, 0},
		"headers are not used": {func(e *gin.Engine) error { e.ForwardedByClientIP = false; return nil }, 0},
	} {
		var log bytes.Buffer
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		e := gin.New()
		if err := c.configure(e); err != nil {
			t.Fatal(err)
		}
		l := core.Must(core.New(memstore.New(), core.SlidingLog("r", core.PerHour(100))))
		e.Use(ginlimit.New(l, ginlimit.ClientIP()))
		for range 3 {
			e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		}
		if got := strings.Count(log.String(), "trusts the X-Forwarded-For of every peer"); got != c.want {
			t.Errorf("%s: got %d warnings, want %d: %s", name, got, c.want, log.String())
		}
	}
}
