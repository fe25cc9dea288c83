package gate_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
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

func TestPerIP_Panics(t *testing.T) {
	other := core.Must(core.New(memstore.New(), core.SlidingLog("other", core.PerHour(1))))
	for want, f := range map[string]func(){
		`nethttplimit: PerIP: a sliding window has no burst: write nethttplimit.New(core.Must(core.New(memstore.New(), core.TokenBucket("ip", limit))), keyfunc.RemoteIP())`: func() {
			nethttplimit.PerIP(core.PerMinute(10).WithBurst(5))
		},
		`nethttplimit: PerIP: gate.And needs limiters on one store: write nethttplimit.New(core.Must(core.New(store, core.SlidingWindow("ip", limit))), keyfunc.RemoteIP(), gate.And(...))`: func() {
			nethttplimit.PerIP(core.PerMinute(10), gate.And(other, keyfunc.RemoteIP()))
		},
		"nethttplimit: PerIP: option 0 is nil":                func() { nethttplimit.PerIP(core.PerMinute(10), nil) },
		`nethttplimit: PerIP: weir: rule "ip": limit is zero`: func() { nethttplimit.PerIP(core.Limit{}) },
	} {
		testkit.Panics(t, want, f)
	}
}
