package gate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/internal/testkit"
)

func TestDenial(t *testing.T) {
	table(t, []row{{
		name:  "allowed: both fields have a member for every rule, and there is no Retry-After",
		rules: []core.Rule{burst, daily}, states: states{"burst": allowed(3, 12*time.Second, 0), "daily": allowed(840, 36000*time.Second, 0)},
		header: map[string]string{
			"RateLimit-Policy": `"burst";q=100;w=60, "daily";q=1000;w=86400`,
			"RateLimit":        `"burst";r=3;t=12, "daily";r=840;t=36000`,
			"Retry-After":      "", "Cache-Control": "", "X-RateLimit-Limit": "", "Access-Control-Expose-Headers": "",
		},
	}, {
		name:  "denied: 429 with both fields, Retry-After and the problem document",
		rules: []core.Rule{burst, daily}, states: states{"burst": denied(11200 * time.Millisecond), "daily": allowed(840, 36000*time.Second, 0)},
		status: 429,
		header: map[string]string{
			"RateLimit-Policy": `"burst";q=100;w=60, "daily";q=1000;w=86400`,
			"RateLimit":        `"burst";r=0;t=12, "daily";r=840;t=36000`,
			"Retry-After":      "12",
		},
		body: document(retry12, `"burst"`),
	}, {
		name:  "denied by two: Retry-After and the text are those of the longest wait, and the document names both rules",
		rules: []core.Rule{burst, daily}, states: states{"burst": denied(time.Second), "daily": denied(12 * time.Second)}, status: 429,
		header: map[string]string{"Retry-After": "12", "RateLimit": `"burst";r=0;t=1, "daily";r=0;t=12`},
		body:   document(`Policy \"daily\" allows 1000 requests per 86400 s. Retry in 12 s.`, `"burst","daily"`),
	}, {
		name:  "unknown beside a denial: the fields and the document leave out a rule with an unknown state",
		rules: []core.Rule{daily, burst}, states: states{"daily": {Allowed: true, Unknown: true}, "burst": denied(12 * time.Second)}, status: 429,
		header: map[string]string{"Retry-After": "12", "RateLimit-Policy": `"burst";q=100;w=60`, "RateLimit": `"burst";r=0;t=12`},
		body:   document(retry12, `"burst"`),
	}, {
		name:  "never: a cost that can never be admitted has no t and no Retry-After, and a text of its own",
		rules: []core.Rule{burst}, states: states{"burst": {Remaining: 100, RetryAfter: core.Never}},
		before: func(h http.Header) { h.Set("Retry-After", "5") }, status: 429,
		header: map[string]string{"Retry-After": "", "RateLimit": `"burst";r=100`},
		body: document(`Policy \"burst\" allows 100 requests per 60 s. `+
			`This request costs more than the policy ever allows.`, `"burst"`),
	}, {
		name:  "never, by the second rule: the text describes the rule that can never admit the cost",
		rules: []core.Rule{daily, burst}, states: states{"daily": denied(time.Second), "burst": {RetryAfter: core.Never}}, status: 429,
		header: map[string]string{"Retry-After": "", "RateLimit": `"daily";r=0;t=1, "burst";r=0`},
		body: document(`Policy \"burst\" allows 100 requests per 60 s. `+
			`This request costs more than the policy ever allows.`, `"daily","burst"`),
	}, {
		name:   "t after the retry: Retry-After is never earlier than the t of a rule that denied",
		states: states{"burst": {RetryAfter: time.Second, Window: 12 * time.Second}}, status: 429,
		header: map[string]string{"Retry-After": "12", "RateLimit": `"burst";r=0;t=12`},
	}, {
		name: `quotes in a name: in a String, " and \ are escaped`, rules: []core.Rule{core.SlidingLog(`say "hi" \o/, ;q=1`, core.PerMinute(7))},
		header: map[string]string{"RateLimit-Policy": `"say \"hi\" \\o/, ;q=1";q=7;w=60`, "RateLimit": `"say \"hi\" \\o/, ;q=1";r=0;t=1`},
	}, {
		name: "large numbers: Integers have at most 15 digits", rules: []core.Rule{core.SlidingLog("burst", core.PerMinute(atMost(1<<48-1)))},
		states: states{"burst": allowed(math.MaxInt, math.MaxInt64, 0)},
		header: map[string]string{
			"RateLimit-Policy": fmt.Sprintf(`"burst";q=%d;w=60`, atMost(1<<48-1)),
			"RateLimit":        fmt.Sprintf(`"burst";r=%d;t=9223372037`, atMost(999999999999999)),
		},
	}, {
		name:   "negative: r is at least 0, and with r=0, t is at least 1",
		states: states{"burst": allowed(-5, -time.Hour, 0)}, header: map[string]string{"RateLimit": `"burst";r=0;t=1`},
	}, {
		name:   "negative window: t is at least 0",
		states: states{"burst": allowed(5, -time.Hour, 0)}, header: map[string]string{"RateLimit": `"burst";r=5;t=0`},
	}, {
		name: "HEAD: the answer has the fields and no body", req: func() *http.Request { return request("HEAD", "/v1/orders") }, status: 429,
		header: map[string]string{"Retry-After": "12", "RateLimit": `"burst";r=0;t=12`},
	}, {
		name: "names once: a rule with two keys has one member, for the stricter state",
		and:  constant("other"), states: states{"burst k": allowed(9, 5*time.Second, 0), "burst other": denied(12 * time.Second)}, status: 429,
		header: map[string]string{"RateLimit-Policy": `"burst";q=100;w=60`, "RateLimit": `"burst";r=0;t=12`, "Retry-After": "12"},
		body:   document(retry12, `"burst"`),
	}, {
		name: "violated once: a rule that denied two keys is named once", and: constant("other"), status: 429, body: document(retry12, `"burst"`),
	}})
	t.Run("Retry-After is rounded up, and at least 1", func(t *testing.T) {
		for retry, want := range map[time.Duration]string{
			0: "1", 1: "1", 12 * time.Second: "12", 12*time.Second + time.Microsecond: "13",
		} {
			table(t, []row{{
				name: retry.String(), states: states{"burst": denied(retry)}, status: 429,
				header: map[string]string{"Retry-After": want, "RateLimit": `"burst";r=0;t=` + want},
			}})
		}
	})
	t.Run("the first media type of Accept chooses text", func(t *testing.T) {
		for field, text := range map[string]bool{
			"*/*": false, "application/json, text/plain": false, "text/plain, application/json": true,
			"\tText/HTML ;q=0.9,application/xhtml+xml,*/*;q=0.8": true, // a browser
		} {
			body := document(retry12, `"burst"`)
			if text {
				body = `Policy "burst" allows 100 requests per 60 s. Retry in 12 s.` + "\n"
			}
			table(t, []row{{name: field, req: accept(field), status: 429, text: text, body: body}})
		}
	})
	t.Run("instance is the escaped path without the query, of at most 1 KiB", func(t *testing.T) {
		a := strings.Repeat("a", 1023)
		for target, instance := range map[string]string{
			"/v1/%22%00%0a%e2%82%ac/a%2fb?q=%22": `"instance":"/v1/%22%00%0a%e2%82%ac/a%2fb",`,
			"/" + a:                              `"instance":"/` + a + `",`,
			"/a" + a:                             "",
			"/" + strings.Repeat("%00", 400):     "", // escaping makes it longer
		} {
			table(t, []row{{
				name: target[:min(len(target), 40)], req: func() *http.Request { return request("GET", target) }, status: 429,
				body: strings.Replace(document(retry12, `"burst"`), `"instance":"/v1/orders",`, instance, 1),
			}})
		}
	})
}

// TestHeaders_Windows checks the policies of rules, and their texts.
func TestHeaders_Windows(t *testing.T) {
	for _, c := range []struct {
		rule         core.Rule
		policy, text string
	}{
		{core.SlidingLog("burst", core.Per(100, 100*time.Millisecond)), `q=100`, "100 requests per 100 ms"},
		{core.SlidingLog("burst", core.Per(1, 250*time.Microsecond)), `q=1`, "1 request per 250 µs"},
		{core.SlidingLog("burst", core.Per(100, 90500*time.Millisecond)), `q=100;w=91`, "100 requests per 90.5 s"},
		{core.TokenBucket("burst", core.PerSecond(3).WithBurst(10)), `q=10;w=4`, "3 requests per 1 s, 10 at once"},
		{core.TokenBucket("burst", core.PerSecond(10).WithBurst(2)), `q=2`, "10 requests per 1 s, 2 at once"},
	} {
		table(t, []row{{
			name: c.text, rules: []core.Rule{c.rule}, status: 429, header: map[string]string{"RateLimit-Policy": `"burst";` + c.policy},
			body: document(`Policy \"burst\" allows `+c.text+`. Retry in 12 s.`, `"burst"`),
		}})
	}
}

// testDeniedStatus checks the statuses that an application chooses for denied requests.
func TestDeniedStatus(t *testing.T) {
	chosen := func(status int) []gate.Option {
		return []gate.Option{gate.DeniedStatus(func(core.Decision) int { return status })}
	}
	byDecision := gate.DeniedStatus(func(d core.Decision) int {
		switch {
		case d.Blocked():
			return 403
		case d.RetryAfter == core.Never:
			return 413
		}
		return 0
	})
	violates := func(status int, title, detail, names string) string {
		return strings.TrimSuffix(problem(status, title, detail), "}\n") + `,"violated-policies":[` + names + "]}\n"
	}
	once := states{"burst": denied(12 * time.Second)}
	const fields = `"burst";r=0;t=12`
	rows := []row{{
		name: "chosen: the document describes the status, and the header fields stay the same", opts: chosen(403), states: once, status: 403,
		header: map[string]string{"Retry-After": "12", "RateLimit": fields, "RateLimit-Policy": `"burst";q=100;w=60`},
		body:   violates(403, "Forbidden", retry12, `"burst"`),
	}, {
		name: "chosen, text", opts: chosen(403), states: once, req: accept("text/plain"), status: 403, text: true,
		body: `Policy "burst" allows 100 requests per 60 s. Retry in 12 s.` + "\n",
	}, {
		name: "chosen, HEAD", opts: chosen(403), states: once, req: func() *http.Request { return request("HEAD", "/v1/orders") }, status: 403,
		header: map[string]string{"Retry-After": "12"},
	}, {
		name: "chosen, 401: has a challenge",
		opts: chosen(401), states: once, status: 401, header: map[string]string{"Retry-After": "12", "WWW-Authenticate": "Bearer"},
		body: violates(401, "Unauthorized", retry12, `"burst"`),
	}, {
		name: "chosen, 599: a status without a text has no title",
		opts: chosen(599), states: once, status: 599, body: violates(599, "", retry12, `"burst"`),
	}, {
		name: "chosen by the decision, too expensive",
		opts: []gate.Option{byDecision}, states: states{"burst": {Remaining: 100, RetryAfter: core.Never}}, status: 413,
		header: map[string]string{"Retry-After": "", "RateLimit": `"burst";r=100`},
		body: violates(413, "Request Entity Too Large",
			`Policy \"burst\" allows 100 requests per 60 s. This request costs more than the policy ever allows.`, `"burst"`),
	}, {
		name:  "chosen by the decision, blocked",
		rules: []core.Rule{planned, daily}, opts: []gate.Option{byDecision, gate.Plan(constant("banned"))}, status: 403,
		header: map[string]string{"Retry-After": "", "RateLimit": `"api";r=0`},
		body:   violates(403, "Forbidden", `Policy \"api\" allows no requests.`, `"api"`), noStore: true,
	}, {
		name: "default, blocked", rules: []core.Rule{planned, daily}, opts: []gate.Option{gate.Plan(constant("banned"))}, status: 429,
		header: map[string]string{"Retry-After": ""}, body: document(`Policy \"api\" allows no requests.`, `"api"`), noStore: true,
	}, {
		name:  "default beside an unlimited rule: only the rule that denied is described",
		rules: []core.Rule{planned, burst}, opts: []gate.Option{byDecision, gate.Plan(constant("staff"))}, status: 429,
		header: map[string]string{"Retry-After": "12", "RateLimit": fields}, body: document(retry12, `"burst"`),
	}}
	for _, status := range []int{-1, 0, 200, 302, 399, 600} {
		rows = append(rows, row{name: "default in place of " + strconv.Itoa(status), opts: chosen(status), status: 429, body: document(retry12, `"burst"`)})
	}
	for _, status := range []int{400, 422, 503} {
		rows = append(rows, row{
			name: "chosen, " + strconv.Itoa(status), opts: chosen(status), states: once, status: status, header: map[string]string{"Retry-After": "12"},
		})
	}
	table(t, rows)
	t.Run("not for other rejections", func(t *testing.T) {
		a := start(setup{Key: noKey(errSecret), Opts: append(chosen(403), quiet)})
		a.Gets(t, 500)
	})
}

// atMost returns n, or the largest int of a 32-bit platform.
func atMost(n int64) int { return int(min(n, math.MaxInt)) }

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New(memstore.New(), core.TokenBucket("r", core.Per(2, 3*time.Second))))
		for _, c := range []struct {
			cost    int
			seconds int64
			ok      bool
		}{{2, 0, false}, {1, 2, true}, {3, 0, false}} { // admitted, denied for 1.5 s, and for ever
			if s, ok := gate.RetryAfter(testkit.Ask(t, l, "k", c.cost)); s != c.seconds || ok != c.ok {
				t.Errorf("cost %d: got %d, %v, want %d, %v", c.cost, s, ok, c.seconds, c.ok)
			}
		}
	})
}

// The seconds are rounded up, also for the longest wait that ends.
func TestRetryAfter_Rounding(t *testing.T) {
	for wait, want := range map[time.Duration]int64{
		0: 1, 1: 1, time.Second: 1, time.Second + 1: 2, core.Never - 1: 9_223_372_037,
	} {
		t.Run(wait.String(), func(t *testing.T) {
			if got, ok := gate.RetryAfter(core.Decision{RetryAfter: wait}); got != want || !ok {
				t.Errorf("got %d, %v, want %d", got, ok, want)
			}
		})
	}
}

// All of 300 clients that wait for Retry-After return in the second after the window ends; with Jitter, in 30 seconds.
func TestJitter_Return(t *testing.T) {
	for name, c := range map[string]struct {
		opts        []gate.Option
		least, most int // of the clients that return in the second with the most
	}{
		"without": {nil, 300, 300},
		"with":    {[]gate.Option{gate.Jitter(30 * time.Second)}, 10, 40}, // 41 in a second: 1 in 10^11 runs
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := start(setup{Rules: []core.Rule{core.FixedWindow("api", core.PerMinute(300))}, Opts: c.opts})
				for range 300 {
					a.Gets(t, 200)
				}
				var mu sync.Mutex
				begin, returns := time.Now(), map[time.Duration]int{} // by second
				testkit.Concurrently(300, func(int) {
					time.Sleep(time.Duration(rand.IntN(20_000)) * time.Millisecond)
					seconds, _ := record(t, a, request("GET", "/")).RetryAfter(t)
					time.Sleep(time.Duration(seconds) * time.Second)
					a.Gets(t, 200)
					mu.Lock()
					defer mu.Unlock()
					returns[time.Since(begin).Truncate(time.Second)]++
				})
				most := 0
				for _, n := range returns {
					most = max(most, n)
				}
				if most < c.least || most > c.most {
					t.Errorf("%d clients return in the same second, want %d to %d: %v", most, c.least, c.most, returns)
				}
			})
		})
	}
}
