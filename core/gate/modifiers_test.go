package gate_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
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
