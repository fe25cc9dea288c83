package gatetest

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

// document is the problem document of a denial, as the contract has it.
func document(detail, violated string) string {
	return `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
		`"title":"Request cannot be satisfied as assigned quota has been exceeded",` +
		`"status":429,"detail":"` + detail + `",` +
		`"instance":"/v1/orders","violated-policies":[` + violated + `]}` + "\n"
}

const retry12 = `Policy \"burst\" allows 100 requests per 60 s. Retry in 12 s.`

func accept(v string) func() *http.Request {
	return func() *http.Request {
		r := request("GET", "/v1/orders")
		r.Header.Set("Accept", v)
		return r
	}
}

func (s *suite) testAnswers(t *testing.T) {
	s.table(t, []row{{
		name:   "allowed: an allowed request carries both fields, a member for every rule, and nothing about waiting",
		rules:  []core.Rule{burst, daily},
		states: states{"burst": allowed(3, 12*time.Second, 0), "daily": allowed(840, 36000*time.Second, 0)},
		header: map[string]string{
			"RateLimit-Policy": `"burst";q=100;w=60, "daily";q=1000;w=86400`,
			"RateLimit":        `"burst";r=3;t=12, "daily";r=840;t=36000`,
			"Retry-After":      "", "Cache-Control": "", "X-RateLimit-Limit": "", "Access-Control-Expose-Headers": "",
		},
	}, {
		name:   "denied: a denial is 429 with both fields, Retry-After and the document",
		rules:  []core.Rule{burst, daily},
		states: states{"burst": denied(11200 * time.Millisecond), "daily": allowed(840, 36000*time.Second, 0)},
		status: 429,
		header: map[string]string{
			"RateLimit-Policy": `"burst";q=100;w=60, "daily";q=1000;w=86400`,
			"RateLimit":        `"burst";r=0;t=12, "daily";r=840;t=36000`,
			"Retry-After":      "12",
		},
		body: document(retry12, `"burst"`),
	}, {
		name:   "denied by two: Retry-After is the longest, the text is about the rule that it is of, the document names both",
		rules:  []core.Rule{burst, daily},
		states: states{"burst": denied(time.Second), "daily": denied(12 * time.Second)},
		status: 429,
		header: map[string]string{"Retry-After": "12", "RateLimit": `"burst";r=0;t=1, "daily";r=0;t=12`},
		body:   document(`Policy \"daily\" allows 1000 requests per 86400 s. Retry in 12 s.`, `"burst","daily"`),
	}, {
		name:   "unknown beside a denial: the fields and the document leave out a rule of which nothing is known",
		rules:  []core.Rule{daily, burst},
		states: states{"daily": {Allowed: true, Unknown: true}, "burst": denied(12 * time.Second)},
		status: 429,
		header: map[string]string{"Retry-After": "12", "RateLimit-Policy": `"burst";q=100;w=60`, "RateLimit": `"burst";r=0;t=12`},
		body:   document(retry12, `"burst"`),
	}, {
		name:   "never: a cost that can never fit has no t and no Retry-After, and the text says so",
		rules:  []core.Rule{burst},
		states: states{"burst": {Remaining: 100, RetryAfter: core.Never}},
		before: func(h http.Header) { h.Set("Retry-After", "5") },
		status: 429,
		header: map[string]string{"Retry-After": "", "RateLimit": `"burst";r=100`},
		body: document(`Policy \"burst\" allows 100 requests per 60 s. `+
			`This request costs more than the policy ever allows.`, `"burst"`),
	}, {
		name:   "never, by the second rule: the text is about the rule that can never admit the cost",
		rules:  []core.Rule{daily, burst},
		states: states{"daily": denied(time.Second), "burst": {RetryAfter: core.Never}},
		status: 429,
		header: map[string]string{"Retry-After": "", "RateLimit": `"daily";r=0;t=1, "burst";r=0`},
		body: document(`Policy \"burst\" allows 100 requests per 60 s. `+
			`This request costs more than the policy ever allows.`, `"daily","burst"`),
	}, {
		name:   "retry in a nanosecond: Retry-After is at least 1, and rounded up",
		states: states{"burst": denied(1)},
		status: 429,
		header: map[string]string{"Retry-After": "1", "RateLimit": `"burst";r=0;t=1`},
	}, {
		name:   "retry at once: Retry-After is at least 1",
		states: states{"burst": denied(0)},
		status: 429,
		header: map[string]string{"Retry-After": "1", "RateLimit": `"burst";r=0;t=1`},
	}, {
		name:   "retry in whole seconds: whole seconds are not rounded",
		status: 429,
		header: map[string]string{"Retry-After": "12", "RateLimit": `"burst";r=0;t=12`},
	}, {
		name:   "retry a microsecond later: Retry-After and t are rounded up",
		states: states{"burst": denied(12*time.Second + time.Microsecond)},
		status: 429,
		header: map[string]string{"Retry-After": "13", "RateLimit": `"burst";r=0;t=13`},
	}, {
		name:   "t after the retry: Retry-After is never earlier than the t of a rule that denied",
		states: states{"burst": {RetryAfter: time.Second, Window: 12 * time.Second}},
		status: 429,
		header: map[string]string{"Retry-After": "12", "RateLimit": `"burst";r=0;t=12`},
	}, {
		name:   "window below a and: such a window cannot be told: w is left out; the text has it",
		rules:  []core.Rule{core.SlidingLog("burst", core.Per(100, 100*time.Millisecond))},
		status: 429,
		header: map[string]string{"RateLimit-Policy": `"burst";q=100`},
		body:   document(`Policy \"burst\" allows 100 requests per 100 ms. Retry in 12 s.`, `"burst"`),
	}, {
		name:   "window of microseconds: any window reads well",
		rules:  []core.Rule{core.SlidingLog("burst", core.Per(1, 250*time.Microsecond))},
		states: states{"burst": denied(1)},
		status: 429,
		header: map[string]string{"RateLimit-Policy": `"burst";q=1`},
		body:   document(`Policy \"burst\" allows 1 request per 250 µs. Retry in 1 s.`, `"burst"`),
	}, {
		name:   "odd window: w is rounded up; the text is exact",
		rules:  []core.Rule{core.SlidingLog("burst", core.Per(100, 90500*time.Millisecond))},
		status: 429,
		header: map[string]string{"RateLimit-Policy": `"burst";q=100;w=91`},
		body:   document(`Policy \"burst\" allows 100 requests per 90.5 s. Retry in 12 s.`, `"burst"`),
	}, {
		name:   "bucket: of a bucket, q is the capacity and w the time to fill it, rounded up",
		rules:  []core.Rule{core.TokenBucket("burst", core.PerSecond(3).WithBurst(10))},
		states: states{"burst": denied(time.Second)},
		status: 429,
		header: map[string]string{"RateLimit-Policy": `"burst";q=10;w=4`},
		body:   document(`Policy \"burst\" allows 3 requests per 1 s, 10 at once. Retry in 1 s.`, `"burst"`),
	}, {
		name:   "bucket that fills within a and: w below a second is left out",
		rules:  []core.Rule{core.TokenBucket("burst", core.PerSecond(10).WithBurst(2))},
		header: map[string]string{"RateLimit-Policy": `"burst";q=2`},
	}, {
		name:   `quotes in a name: in a String, " and \ are escaped`,
		rules:  []core.Rule{core.SlidingLog(`say "hi" \o/, ;q=1`, core.PerMinute(7))},
		header: map[string]string{"RateLimit-Policy": `"say \"hi\" \\o/, ;q=1";q=7;w=60`, "RateLimit": `"say \"hi\" \\o/, ;q=1";r=0;t=1`},
	}, {
		name:   "large numbers: Integers have at most 15 digits",
		rules:  []core.Rule{core.SlidingLog("burst", core.PerMinute(atMost(1<<48-1)))},
		states: states{"burst": allowed(math.MaxInt, math.MaxInt64, 0)},
		header: map[string]string{
			"RateLimit-Policy": fmt.Sprintf(`"burst";q=%d;w=60`, atMost(1<<48-1)),
			"RateLimit":        fmt.Sprintf(`"burst";r=%d;t=9223372037`, atMost(999999999999999)),
		},
	}, {
		name:   "less than nothing: r is at least 0, and with an r of 0, t is at least 1",
		states: states{"burst": allowed(-5, -time.Hour, 0)},
		header: map[string]string{"RateLimit": `"burst";r=0;t=1`},
	}, {
		name:   "a window of nothing: t is at least 0",
		states: states{"burst": allowed(5, -time.Hour, 0)},
		header: map[string]string{"RateLimit": `"burst";r=5;t=0`},
	}, {
		name:   "HEAD: HEAD has the fields and no body",
		req:    func() *http.Request { return request("HEAD", "/v1/orders") },
		status: 429,
		header: map[string]string{"Retry-After": "12", "RateLimit": `"burst";r=0;t=12`},
	}, {
		name:   "text first: a client that asks for text first gets a line of text",
		req:    accept("text/plain, application/json"),
		status: 429,
		text:   true,
		header: map[string]string{"Retry-After": "12"},
		body:   `Policy "burst" allows 100 requests per 60 s. Retry in 12 s.` + "\n",
	}, {
		name:   "browser: what a browser sends asks for text first",
		req:    accept("\tText/HTML ;q=0.9,application/xhtml+xml,*/*;q=0.8"),
		status: 429,
		text:   true,
		body:   `Policy "burst" allows 100 requests per 60 s. Retry in 12 s.` + "\n",
	}, {
		name:   "text and: the first media type counts",
		req:    accept("application/json, text/plain"),
		status: 429,
		body:   document(retry12, `"burst"`),
	}, {
		name:   "anything: the document is the default",
		req:    accept("*/*"),
		status: 429,
		body:   document(retry12, `"burst"`),
	}, {
		name:   "escapes in the path: instance is the path as it was escaped, without the query",
		req:    func() *http.Request { return request("GET", "/v1/%22%00%0a%e2%82%ac/a%2fb?q=%22") },
		status: 429,
		body:   strings.Replace(document(retry12, `"burst"`), "/v1/orders", "/v1/%22%00%0a%e2%82%ac/a%2fb", 1),
	}, {
		name:   "long path: a path of more than 1 KiB is left out",
		req:    func() *http.Request { return request("GET", "/"+strings.Repeat("a", 1024)) },
		status: 429,
		body:   strings.Replace(document(retry12, `"burst"`), `"instance":"/v1/orders",`, "", 1),
	}, {
		name:   "longest path: a path of 1 KiB is sent",
		req:    func() *http.Request { return request("GET", "/"+strings.Repeat("a", 1023)) },
		status: 429,
		body:   strings.Replace(document(retry12, `"burst"`), "/v1/orders", "/"+strings.Repeat("a", 1023), 1),
	}, {
		name:   "path that grows: it is the escaped path that has at most 1 KiB",
		req:    func() *http.Request { return request("GET", "/"+strings.Repeat("%00", 400)) },
		status: 429,
		body:   strings.Replace(document(retry12, `"burst"`), `"instance":"/v1/orders",`, "", 1),
	}, {
		name:   "names once: one rule for two keys is one member, the stricter",
		and:    constant("other"),
		states: states{"burst k": allowed(9, 5*time.Second, 0), "burst other": denied(12 * time.Second)},
		status: 429,
		header: map[string]string{"RateLimit-Policy": `"burst";q=100;w=60`, "RateLimit": `"burst";r=0;t=12`, "Retry-After": "12"},
		body:   document(retry12, `"burst"`),
	}, {
		name:   "violated once: a rule that denied for two keys is named once",
		and:    constant("other"),
		status: 429,
		body:   document(retry12, `"burst"`),
	}})
}
