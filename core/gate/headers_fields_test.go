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
