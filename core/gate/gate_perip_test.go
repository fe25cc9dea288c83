package gate_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/nethttplimit"
)

func TestPerIP(t *testing.T) {
	skip := gate.DeniedStatus(func(core.Decision) int { return http.StatusServiceUnavailable })
	h := nethttplimit.PerIP(core.PerMinute(2), skip)(http.NotFoundHandler())
	for i, c := range []struct {
		peer   string
		status int
		limit  string
	}{
		{"192.0.2.1:1", 404, `"ip";r=1;t=`}, {"192.0.2.1:2", 404, `"ip";r=0;t=`}, {"192.0.2.1:3", 503, `"ip";r=0;t=`}, {"192.0.2.2:1", 404, `"ip";r=1;t=`},
	} {
		r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
		r.RemoteAddr = c.peer
		h.ServeHTTP(w, r)
		if got := w.Header().Get("RateLimit"); w.Code != c.status || len(got) < len(c.limit) || got[:len(c.limit)] != c.limit {
			t.Errorf("request %d: %d, RateLimit %s, want %d and %s", i, w.Code, got, c.status, c.limit)
		}
	}
}
