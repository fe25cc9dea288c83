package gate_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
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

func TestHeaders_Options(t *testing.T) {
	const allFields = "RateLimit, RateLimit-Policy, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"
	table(t, []row{{
		name: "no headers, allowed: Headers() sends no field", opts: []gate.Option{gate.Headers()},
		header: map[string]string{"RateLimit-Policy": "", "RateLimit": "", "X-RateLimit-Limit": "", "Retry-After": ""},
	}, {
		name: "no headers, denied: Retry-After is sent", opts: []gate.Option{gate.Headers()}, status: 429,
		header: map[string]string{"RateLimit-Policy": "", "RateLimit": "", "X-RateLimit-Limit": "", "Retry-After": "12"},
		body:   document(retry12, `"burst"`),
	}, {
		name: "legacy headers: the fields describe the rule with the smallest part of its capacity left",
		opts: []gate.Option{gate.Headers(gate.XRateLimit)}, rules: []core.Rule{burst, daily},
		states: states{"burst": allowed(50, 0, 0), "daily": allowed(60, 0, 0)},
		header: map[string]string{"X-RateLimit-Limit": "1000", "X-RateLimit-Remaining": "60", "RateLimit": "", "RateLimit-Policy": ""},
	}, {
		name: "legacy headers, other order: the order of the rules does not matter",
		opts: []gate.Option{gate.Headers(gate.XRateLimit)}, rules: []core.Rule{daily, burst},
		states: states{"burst": allowed(50, 0, 0), "daily": allowed(60, 0, 0)},
		header: map[string]string{"X-RateLimit-Limit": "1000", "X-RateLimit-Remaining": "60"},
	}, {
		name: "legacy headers, both exhausted: with equal parts left, the rule with the longer reset",
		opts: []gate.Option{gate.Headers(gate.XRateLimit)}, rules: []core.Rule{burst, daily},
		states: states{"burst": allowed(0, 0, time.Minute), "daily": allowed(0, 0, time.Hour)},
		header: map[string]string{"X-RateLimit-Limit": "1000", "X-RateLimit-Remaining": "0"},
	}, {
		name: "legacy headers, denied", opts: []gate.Option{gate.Headers(gate.XRateLimit)}, rules: []core.Rule{burst, daily},
		states: states{"burst": denied(12 * time.Second), "daily": allowed(840, 0, 0)}, status: 429,
		header: map[string]string{"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "0", "Retry-After": "12"},
	}, {
		name: "both versions",
		opts: []gate.Option{gate.Headers(gate.XRateLimit, gate.IETFDraft)}, states: states{"burst": allowed(3, 12*time.Second, 0)},
		header: map[string]string{"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "3", "RateLimit": `"burst";r=3;t=12`},
	}, {
		name: "the later of two Headers counts",
		opts: []gate.Option{gate.Headers(gate.XRateLimit), gate.Headers()}, header: map[string]string{"X-RateLimit-Limit": "", "RateLimit": ""},
	}, {
		name: "exposed", opts: []gate.Option{gate.ExposeHeaders()},
		header: map[string]string{"Access-Control-Expose-Headers": "RateLimit, RateLimit-Policy, Retry-After"},
	}, {
		name: "exposed, denied", opts: []gate.Option{gate.ExposeHeaders(), gate.Headers(gate.IETFDraft, gate.XRateLimit)}, status: 429,
		header: map[string]string{"Access-Control-Expose-Headers": allFields},
	}, {
		name: "exposed, no fields: only Retry-After is exposed",
		opts: []gate.Option{gate.ExposeHeaders(), gate.Headers()}, header: map[string]string{"Access-Control-Expose-Headers": "Retry-After"},
	}, {
		name: "exposed with others: existing names stay, and no name is there twice", opts: []gate.Option{gate.ExposeHeaders()},
		before: func(h http.Header) {
			h.Add("Access-Control-Expose-Headers", "X-Total, retry-after")
			h.Add("Access-Control-Expose-Headers", "ETag")
		},
		header: map[string]string{"Access-Control-Expose-Headers": "X-Total, retry-after, ETag, RateLimit, RateLimit-Policy"},
	}, {
		name: "exposed, 503", opts: []gate.Option{gate.ExposeHeaders(), gate.FailClosed()}, err: core.ErrUnavailable, status: 503,
		header: map[string]string{"Access-Control-Expose-Headers": "RateLimit, RateLimit-Policy, Retry-After"},
	}})
}

// A step is a request some time after the one before.
type step struct {
	wait  time.Duration
	limit string // the RateLimit field
	retry string // Retry-After; the request is denied unless it is empty
}

func TestHeaders_Time(t *testing.T) {
	for _, c := range []struct {
		name  string
		rule  core.Rule
		steps []step
	}{{
		name: "token bucket",
		rule: core.TokenBucket("r", core.Per(2, 3*time.Second)), // one in 1.5 s
		steps: []step{
			{0, `"r";r=1;t=2`, ""}, // one token comes back in 1.5 s
			{0, `"r";r=0;t=2`, ""}, // and none is left until then
			{0, `"r";r=0;t=2`, "2"},
			{time.Second, `"r";r=0;t=1`, "1"},
			{time.Second, `"r";r=0;t=1`, ""}, // 0.5 s of the next 1.5 s have passed
		},
	}, {
		name: "sliding log", rule: core.SlidingLog("r", core.Per(2, 10*time.Second)),
		steps: []step{
			{0, `"r";r=1;t=10`, ""},
			{2500 * time.Millisecond, `"r";r=0;t=8`, ""}, // the oldest leaves in 7.5 s
			{0, `"r";r=0;t=8`, "8"},
			{7 * time.Second, `"r";r=0;t=1`, "1"},
			{time.Second, `"r";r=0;t=2`, ""}, // the one of 2.5 s leaves at 12.5
		},
	}, {
		name: "sub-second", rule: core.SlidingLog("r", core.Per(1, 10*time.Millisecond)),
		steps: []step{
			{0, `"r";r=0;t=1`, ""},
			{0, `"r";r=0;t=1`, "1"},
			{time.Second, `"r";r=0;t=1`, ""},
		},
	}, {
		name: "one in a year", rule: core.TokenBucket("r", core.Per(1, 365*24*time.Hour)),
		steps: []step{
			{0, `"r";r=0;t=31536000`, ""},
			{0, `"r";r=0;t=31536000`, "31536000"},
			{365*24*time.Hour - time.Second, `"r";r=0;t=1`, "1"},
			{time.Second, `"r";r=0;t=31536000`, ""},
		},
	}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := start(setup{Rules: []core.Rule{c.rule}})
				for i, step := range c.steps {
					time.Sleep(step.wait)
					got := a.Get(t)
					want := http.StatusOK
					if step.retry != "" {
						want = http.StatusTooManyRequests
					}
					if got.Status != want || got.Header.Get("RateLimit") != step.limit || got.Header.Get("Retry-After") != step.retry {
						t.Errorf("step %d: %d, RateLimit %q, Retry-After %q; want %d, %q, %q", i,
							got.Status, got.Header.Get("RateLimit"), got.Header.Get("Retry-After"), want, step.limit, step.retry)
					}
				}
			})
		})
	}
}

// A client that waits for Retry-After is not denied again.
func TestHeaders_RetryAfterIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cost := 0
		a := start(setup{
			Rules: []core.Rule{
				core.TokenBucket("bucket", core.Per(7, 11*time.Second).WithBurst(5)),
				core.SlidingLog("log", core.Per(9, 17300*time.Millisecond)),
			},
			Opts: []gate.Option{gate.Cost(func(context.Context, *http.Request) int { return cost })},
		})
		denials := 0
		for i := range 200 {
			cost = 1 + i%5
			time.Sleep(time.Duration(i*i%1700) * time.Millisecond)
			got := a.Get(t)
			if got.Status == http.StatusOK {
				continue
			}
			denials++
			retry, _ := got.RetryAfter(t)
			time.Sleep(time.Duration(retry) * time.Second)
			if a.Get(t).Status != http.StatusOK {
				t.Fatalf("request %d: denied again after a Retry-After of %d s", i, retry)
			}
		}
		if denials < 20 {
			t.Errorf("only %d denials, want 20 or more", denials)
		}
	})
}

// TestHeaders_LegacyReset checks that X-RateLimit-Reset is Unix seconds, rounded up.
func TestHeaders_LegacyReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(setup{
			Rules: []core.Rule{core.SlidingLog("log", core.Per(5, 1500*time.Millisecond))},
			Opts:  []gate.Option{gate.Headers(gate.XRateLimit)},
		})
		begin := time.Now().Unix()                                                             // the bubble starts on a whole second
		for _, wait := range []time.Duration{700 * time.Millisecond, 800 * time.Millisecond} { // 2.2 s is 3, and 3 s is 3
			time.Sleep(wait)
			want := strconv.FormatInt(begin+3, 10)
			if reset := a.Get(t).Header.Get("X-RateLimit-Reset"); reset != want {
				t.Errorf("X-RateLimit-Reset is %s, want %s", reset, want)
			}
		}
	})
}

// A Store with a clock of its own has the ends of its periods in the header fields and texts of its responses, in a gate
// and in Check. Deny, which has no Store, reads the clock of the process.
func TestHeaders_ClockOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Date(2100, 3, 1, 12, 0, 0, 0, time.UTC)
		store := memstore.New(memstore.Clock(func() time.Time { return now }))
		limiter := testkit.Limiter(t, store, core.Quota("month", core.Monthly(1)))
		end := time.Date(2100, 4, 1, 0, 0, 0, 0, time.UTC)
		for name, c := range map[string]struct {
			h   http.Handler
			end time.Time
		}{
			"gate": {nethttplimit.New(limiter, keyfunc.Constant("gate"), gate.Headers(gate.XRateLimit))(http.NotFoundHandler()), end},
			"Check": {http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				nethttplimit.Check(w, r, limiter, "check", gate.Headers(gate.XRateLimit))
			}), end},
			"Deny": {http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if d := testkit.Allow(t, limiter, "deny"); !d.Allowed {
					nethttplimit.Deny(w, r, d)
				}
			}), time.Now().Add(end.Sub(now))},
		} {
			for denied := range 2 {
				w := httptest.NewRecorder()
				c.h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
				if got, want := w.Header().Get("X-RateLimit-Reset"), strconv.FormatInt(end.Unix(), 10); name != "Deny" && got != want {
					t.Errorf("%s: got X-RateLimit-Reset %s, want %s", name, got, want)
				}
				if text := c.end.UTC().Format(time.RFC3339); denied > 0 && (w.Code != 429 || !strings.Contains(w.Body.String(), text)) {
					t.Errorf("%s: got status %d, %s, want 429 and the end %s", name, w.Code, w.Body, text)
				}
			}
		}
	})
}

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

// The header fields and documents of a quota have the length of the present period, the time to the next one, and
// the events that have rolled over.
func TestQuota_Fields(t *testing.T) {
	type request struct {
		wait                          time.Duration
		policy, limit, retry, problem string
	}
	const january = 31 * 24 * time.Hour
	quota := core.Quota("calls", core.Monthly(2))
	for name, c := range map[string]struct {
		rule     core.Rule
		requests []request
	}{
		"quota": {quota, []request{
			{0, `"calls";q=2;w=2678400`, `"calls";r=1;t=2678400`, "", ""},
			{january - 90*time.Second, `"calls";q=2;w=2678400`, `"calls";r=0;t=90`, "", ""},
			{time.Second, `"calls";q=2;w=2678400`, `"calls";r=0;t=89`, "89", `Policy \"calls\" allows 2 requests per month. Retry in 89 s.`},
			{89 * time.Second, `"calls";q=2;w=2505600`, `"calls";r=1;t=2505600`, "", ""},
		}},
		"rollover": {quota.Rollover(5), []request{
			{0, `"calls";q=2;w=2678400`, `"calls";r=1;t=2678400`, "", ""},
			{january, `"calls";q=3;w=2505600`, `"calls";r=2;t=2505600`, "", ""},
			{0, `"calls";q=3;w=2505600`, `"calls";r=1;t=2505600`, "", ""},
			{29*24*time.Hour - 90*time.Second, `"calls";q=3;w=2505600`, `"calls";r=0;t=90`, "", ""},
			{0, `"calls";q=3;w=2505600`, `"calls";r=0;t=90`, "90", `Policy \"calls\" allows 3 requests per month. Retry in 90 s.`},
			{90 * time.Second, `"calls";q=2;w=2678400`, `"calls";r=1;t=2678400`, "", ""},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // begins at midnight, on January 1, 2000
				l := testkit.Limiter(t, memstore.New(), c.rule, core.TokenBucket("rate", core.PerMinute(60)))
				h := nethttplimit.New(l, keyfunc.Header("User"), gate.Headers(gate.IETFDraft, gate.XRateLimit))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
				for i, want := range c.requests {
					time.Sleep(want.wait)
					r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
					r.Header.Set("User", "u")
					h.ServeHTTP(w, r)
					got := w.Header()
					policy, limit := got.Get("RateLimit-Policy"), got.Get("RateLimit")
					if !strings.HasPrefix(policy, want.policy+", ") || !strings.HasPrefix(limit, want.limit+", ") || got.Get("Retry-After") != want.retry || !strings.Contains(w.Body.String(), want.problem) {
						t.Errorf("request %d: got %s | %s | %q | %s", i, policy, limit, got.Get("Retry-After"), w.Body)
					}
				}
			})
		})
	}
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
