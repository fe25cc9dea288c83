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

// soft returns a state beyond the limit of a soft rule.
func soft(window time.Duration) core.State {
	return core.State{Allowed: true, Soft: true, Window: window, ResetAfter: window}
}

func TestModifiers_Soft(t *testing.T) {
	lenient := []core.Rule{core.SlidingLog("burst", core.PerMinute(100)).Soft(10), core.SlidingLog("day", core.PerDay(1000)).Soft(5)}
	table(t, []row{{
		name:  "beyond: the fields describe the limit without the tolerated excess, with r=0",
		rules: lenient, states: states{"burst": soft(12 * time.Second), "day": allowed(840, 36000*time.Second, 0)},
		header: map[string]string{
			"RateLimit-Policy": `"burst";q=100;w=60, "day";q=1000;w=86400`,
			"RateLimit":        `"burst";r=0;t=12, "day";r=840;t=36000`, "Retry-After": "",
		},
	}, {
		name:  "denied: the document names only rules that deny",
		rules: lenient, states: states{"burst": denied(12 * time.Second), "day": soft(36000 * time.Second)}, status: 429,
		header: map[string]string{"Retry-After": "12"}, body: document(retry12, `"burst"`),
	}})
	t.Run("handler", func(t *testing.T) {
		a := start(setup{Rules: []core.Rule{core.SlidingLog("ten", core.PerHour(10)).Soft(20)}})
		for i := range 13 {
			want := http.StatusOK
			if i >= 12 {
				want = http.StatusTooManyRequests
			}
			a.Gets(t, want)
			if d, _ := a.Saw(); d.Soft() != (i >= 10) {
				t.Errorf("request %d: the handler sees soft %v, want %v", i, d.Soft(), i >= 10)
			}
		}
	})
}

func TestModifiers_Shadow(t *testing.T) {
	dark := core.SlidingLog("dark", core.PerDay(5)).Shadow()
	none := map[string]string{
		"RateLimit": "", "RateLimit-Policy": "", "X-RateLimit-Limit": "", "X-RateLimit-Remaining": "",
		"X-RateLimit-Reset": "", "Retry-After": "",
	}
	all := []gate.Option{gate.Headers(gate.IETFDraft, gate.XRateLimit), gate.ExposeHeaders()}
	table(t, []row{{
		name:  "would deny: clients see nothing of a shadow rule",
		rules: []core.Rule{dark, burst}, states: states{"burst": allowed(3, 12*time.Second, 0), "dark": denied(time.Hour)},
		header: map[string]string{"RateLimit-Policy": `"burst";q=100;w=60`, "RateLimit": `"burst";r=3;t=12`, "Retry-After": ""},
	}, {
		name:  "nearest to exhaustion: the legacy fields describe an enforced rule",
		rules: []core.Rule{dark, burst}, opts: []gate.Option{gate.Headers(gate.XRateLimit)},
		states: states{"burst": allowed(99, 12*time.Second, 0), "dark": allowed(0, time.Hour, time.Hour)},
		header: map[string]string{"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "99"},
	}, {
		name:  "denied by another: Retry-After and the document describe the rule that denied",
		rules: []core.Rule{dark, burst}, states: states{"burst": denied(12 * time.Second), "dark": {RetryAfter: core.Never, Window: time.Hour}},
		status: 429, header: map[string]string{"Retry-After": "12", "RateLimit": `"burst";r=0;t=12`}, body: document(retry12, `"burst"`),
	}, {
		name:  "only shadows: a limiter of shadows sends no field",
		rules: []core.Rule{dark, core.LeakyBucket("queue", core.PerHour(1)).Shadow()}, opts: all,
		states: states{"dark": denied(time.Hour), "queue": {Allowed: true, Delay: time.Hour}}, header: none,
	}})
	t.Run("handler", func(t *testing.T) {
		a := start(setup{Rules: []core.Rule{burst, dark}, States: states{"burst": allowed(3, 12*time.Second, 0), "dark": denied(time.Hour)}})
		a.Gets(t, 200)
		d, ok := a.Saw()
		if state, found := d.StateOf("dark"); !ok || !d.Allowed || !found || state.Allowed || state.RetryAfter != time.Hour {
			t.Errorf("the handler sees %+v, %v; want the state of the shadow", d, ok)
		}
	})
	t.Run("several gates", func(t *testing.T) {
		over := one(dark, denied(time.Hour))
		got := record(t, stack([]layer{over, one(burst, allowed(3, 12*time.Second, 0)), over}, says("ok\n")), request("GET", "/"))
		if got.Status != 200 || got.Header.Get("RateLimit") != `"burst";r=3;t=12` || got.Header.Get("RateLimit-Policy") != `"burst";q=100;w=60` {
			t.Errorf("got %d, %v", got.Status, got.Header)
		}
	})
}

func TestModifiers_Elastic(t *testing.T) {
	for _, c := range []struct {
		name   string
		rule   core.Rule
		spare  float64
		policy string
		legacy string
		detail string
	}{
		{"at rest", burst, 0, `"burst";q=100;w=60`, "100", `allows 100 requests per 60 s`},
		{"stretched", burst, 1, `"burst";q=300;w=60`, "300", `allows 300 requests per 60 s`},
		{"half way", burst, 0.5, `"burst";q=200;w=60`, "200", `allows 200 requests per 60 s`},
		{
			"bucket", core.TokenBucket("burst", core.PerMinute(10).WithBurst(20)), 1,
			`"burst";q=60;w=120`, "60", `allows 30 requests per 60 s, 60 at once`,
		},
		{
			"another rate", core.TokenBucket("burst", core.PerMinute(10).WithBurst(1)), 0.3,
			`"burst";q=1;w=4`, "1", `allows 16 requests per 60 s, 1 at once`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			rule := c.rule.Elastic(func() float64 { return c.spare }, 3)
			elastic := one(rule, denied(12*time.Second), gate.Headers(gate.IETFDraft, gate.XRateLimit))
			for want, layers := range map[string][]layer{
				c.policy:                              {elastic},
				`"daily";q=1000;w=86400, ` + c.policy: {one(daily, allowed(1000, time.Hour, 0)), elastic},
			} {
				got := record(t, stack(layers, says("ok\n")), request("GET", "/"))
				if v := got.Header.Get("RateLimit-Policy"); v != want {
					t.Errorf("RateLimit-Policy is %s, want %s, the limit in force", v, want)
				}
				if v := got.Header.Get("X-RateLimit-Limit"); v != c.legacy {
					t.Errorf("X-RateLimit-Limit is %s, want %s", v, c.legacy)
				}
				if !strings.Contains(got.Body, c.detail) {
					t.Errorf("the document is %s, want the text %s", got.Body, c.detail)
				}
			}
		})
	}
}

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
