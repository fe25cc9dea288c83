package gate_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// The header fields and documents of a quota have the length of the present period and the time to the
// next one.
func TestQuota_Fields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins at midnight, on January 1, 2000
		store := memstore.New()
		l := testkit.Limiter(t, store, core.Quota("calls", core.Monthly(2)), core.TokenBucket("rate", core.PerMinute(60)))
		h := nethttplimit.New(l, keyfunc.Header("User"), gate.Headers(gate.IETFDraft, gate.XRateLimit))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		get := func() http.Header {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("User", "u")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			w.Header().Set("Body", w.Body.String())
			return w.Header()
		}
		for i, want := range []struct {
			wait                          time.Duration
			policy, limit, retry, problem string
		}{
			{0, `"calls";q=2;w=2678400`, `"calls";r=1;t=2678400`, "", ""},
			{31*24*time.Hour - 90*time.Second, `"calls";q=2;w=2678400`, `"calls";r=0;t=90`, "", ""},
			{time.Second, `"calls";q=2;w=2678400`, `"calls";r=0;t=89`, "89", `Policy \"calls\" allows 2 requests per month. Retry in 89 s.`},
			{89 * time.Second, `"calls";q=2;w=2505600`, `"calls";r=1;t=2505600`, "", ""},
		} {
			time.Sleep(want.wait)
			got := get()
			policy, limit := got.Get("RateLimit-Policy"), got.Get("RateLimit")
			if !strings.HasPrefix(policy, want.policy+", ") || !strings.HasPrefix(limit, want.limit+", ") || got.Get("Retry-After") != want.retry || !strings.Contains(got.Get("Body"), want.problem) {
				t.Errorf("request %d: got %s | %s | %q | %s", i, policy, limit, got.Get("Retry-After"), got.Get("Body"))
			}
		}
	})
}

// A plan that leaves headroom has the quota and the units that it may use.
func TestHeadroom_Fields(t *testing.T) {
	class := func(context.Context, *http.Request) (string, error) { return "sheddable", nil }
	for name, c := range map[string]struct {
		rule            core.Rule
		policy, problem string
	}{
		"window": {core.FixedWindow("r", core.PerMinute(10)), `"r";q=8;w=60`, `allows 8 requests per 60 s.`},
		"bucket": {core.TokenBucket("r", core.PerMinute(10)), `"r";q=8;w=48`, `allows 10 requests per 60 s, 8 at once.`},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := testkit.Limiter(t, memstore.New(), c.rule.Headroom("sheddable", 20))
			h := nethttplimit.New(l, keyfunc.Header("User"), gate.Plan(class))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			var w *httptest.ResponseRecorder
			for range 9 {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.Header.Set("User", "u")
				w = httptest.NewRecorder()
				h.ServeHTTP(w, r)
			}
			if got := w.Header().Get("RateLimit-Policy"); w.Code != 429 || got != c.policy || !strings.Contains(w.Body.String(), c.problem) {
				t.Errorf("%s: got %d, %s, %s", name, w.Code, got, w.Body)
			}
		})
	}
}
