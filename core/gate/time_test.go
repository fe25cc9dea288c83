package gate_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
)

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
		name: "sliding log",
		rule: core.SlidingLog("r", core.Per(2, 10*time.Second)),
		steps: []step{
			{0, `"r";r=1;t=10`, ""},
			{2500 * time.Millisecond, `"r";r=0;t=8`, ""}, // the oldest leaves in 7.5 s
			{0, `"r";r=0;t=8`, "8"},
			{7 * time.Second, `"r";r=0;t=1`, "1"},
			{time.Second, `"r";r=0;t=2`, ""}, // the one of 2.5 s leaves at 12.5
		},
	}, {
		name: "sub-second",
		rule: core.SlidingLog("r", core.Per(1, 10*time.Millisecond)),
		steps: []step{
			{0, `"r";r=0;t=1`, ""},
			{0, `"r";r=0;t=1`, "1"},
			{time.Second, `"r";r=0;t=1`, ""},
		},
	}, {
		name: "one in a year",
		rule: core.TokenBucket("r", core.Per(1, 365*24*time.Hour)),
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
