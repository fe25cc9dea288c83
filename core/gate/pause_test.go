package gate_test

import (
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

// The header fields do not mention a pause that is open, and have q=0 and the exact end of one that is closed.
func TestPause_Fields(t *testing.T) {
	const rate, closed = `"rate";q=60;w=60`, `"partner";q=0`
	type fields struct{ policy, limit, retry, legacy, problem string }
	for name, c := range map[string]struct {
		rules []core.Rule
		pause time.Duration
		want  fields
	}{
		"open, alone":       {[]core.Rule{core.Pause("partner")}, 0, fields{}},
		"open":              {[]core.Rule{core.Pause("partner"), core.TokenBucket("rate", core.PerMinute(60))}, 0, fields{rate, `"rate";r=59;t=59`, "", "60 59 946684801", ""}},
		"closed, alone":     {[]core.Rule{core.Pause("partner")}, 3 * time.Second, fields{closed, `"partner";r=0;t=3`, "3", "0 0 946684803", `Policy \"partner\" allows no requests until 2000-01-01T00:00:03Z. Retry in 3 s.`}},
		"closed":            {[]core.Rule{core.TokenBucket("rate", core.PerMinute(60)), core.Pause("partner")}, 3 * time.Second, fields{rate + `, ` + closed, `"rate";r=60;t=60, "partner";r=0;t=3`, "3", "0 0 946684803", `"violated-policies":["partner"]`}},
		"parts of a second": {[]core.Rule{core.Pause("partner")}, 2*time.Second + time.Millisecond, fields{closed, `"partner";r=0;t=3`, "3", "0 0 946684803", `until 2000-01-01T00:00:03Z. Retry in 3 s.`}},
		"above a day":       {[]core.Rule{core.Pause("partner")}, 48 * time.Hour, fields{closed, `"partner";r=0;t=172800`, "172800", "0 0 946857600", `until 2000-01-03T00:00:00Z. Retry in 172800 s.`}},
		"a label":           {[]core.Rule{core.NewRule(core.Spec{Name: "partner", Algorithm: core.AlgorithmPause, Label: "penalty"})}, time.Second, fields{`"penalty";q=0`, `"penalty";r=0;t=1`, "1", "0 0 946684801", `"violated-policies":["penalty"]`}},
		"a shadow":          {[]core.Rule{core.Pause("partner").Shadow(), core.TokenBucket("rate", core.PerMinute(60))}, time.Minute, fields{rate, `"rate";r=59;t=59`, "", "60 59 946684801", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // begins on January 1, 2000
				l := testkit.Limiter(t, memstore.New(), c.rules...)
				h := nethttplimit.New(l, keyfunc.Header("User"), gate.Headers(gate.IETFDraft, gate.XRateLimit))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
				testkit.Must(t, l.Pause(t.Context(), keyOf(t, "u"), c.pause))
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.Header.Set("User", "u")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				status, header := http.StatusOK, w.Header()
				if c.want.retry != "" {
					status = http.StatusTooManyRequests
				}
				legacy := strings.TrimSpace(header.Get("X-RateLimit-Limit") + " " + header.Get("X-RateLimit-Remaining") + " " + header.Get("X-RateLimit-Reset"))
				got := fields{header.Get("RateLimit-Policy"), header.Get("RateLimit"), header.Get("Retry-After"), legacy, c.want.problem}
				if w.Code != status || got != c.want || !strings.Contains(w.Body.String(), c.want.problem) {
					t.Errorf("got %d, %+v, %s\nwant %d, %+v", w.Code, got, w.Body, status, c.want)
				}
			})
		})
	}
}

// keyOf returns the key of a user for keyfunc.Header("User").
func keyOf(t *testing.T, user string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("User", user)
	key, err := keyfunc.Header("User")(t.Context(), r)
	testkit.Must(t, err)
	return key
}
