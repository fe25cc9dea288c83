package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testkit"
)

// simulateArgs runs weir simulate with these arguments, and returns its report.
func simulateArgs(t *testing.T, args ...string) *simulated {
	t.Helper()
	var r simulated
	reportOf(t, &r, append([]string{"simulate", "-json"}, args...)...)
	return &r
}

// reportOf runs a command, and decodes its report into r.
func reportOf(t *testing.T, r any, args ...string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(output(t, args...)))
	d.DisallowUnknownFields()
	testkit.Must(t, d.Decode(r))
}

// output runs a command, and returns its standard output.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr strings.Builder
	if status := run(args, &stdout, &stderr); status != 0 || stderr.Len() > 0 {
		t.Fatalf("%v: got status %d and stderr %s", args, status, &stderr)
	}
	if strings.Contains(stdout.String(), ": null") {
		t.Errorf("%v: got a null in %s", args, &stdout)
	}
	return stdout.String()
}

// figures returns the figures of r, in lines such as
//
//	5 admitted, 1 denied, 0 delayed, 0 without a policy; 1 of 2 keys denied, 1 affected
//	api 5 1 0, retry 58 58 58, never 0
//	api.minute fixed_window 2/m: 5 1 0, most 2 of 2/m
func (r *simulated) figures() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d admitted, %d denied, %d delayed, %d without a policy; %d of %d keys denied, %d affected\n",
		r.Admitted, r.Denied, r.Delayed, r.NoPolicy, r.DeniedKeys, r.Keys, r.AffectedKeys)
	for _, p := range r.Policies {
		q := p.RetryAfter
		fmt.Fprintf(&b, "%s %d %d %d, retry %v %v %v, never %d\n", p.Name, p.Admitted, p.Denied, p.Delayed, q.Median, q.P99, q.Max, p.Never)
		for _, s := range p.Rules {
			name := p.Name + "." + s.Name
			if s.Shadow {
				name += " (shadow)"
			}
			fmt.Fprintf(&b, "%s %s %s: %d %d %d", name, s.Algorithm, s.Limit, s.Admitted, s.Denied, s.Delayed)
			if m := s.Most; m != nil {
				fmt.Fprintf(&b, ", most %d of %s", m.Admitted, m.Limit)
			}
			if s.Algorithm == "leaky_bucket" {
				fmt.Fprintf(&b, ", queue %v, delay %v", s.Queue, s.Delay)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// policy returns a file with the policy api, which has these rules.
func policy(rules string) string { return "policies: {api: {rules: [" + rules + "]}}" }

// csv returns a trace without a header, of the elements "TIME,KEY,..." with times from 2026-01-02T03:00:00Z on. An
// element with a suffix such as *3 is there as often.
func csv(events string) string {
	var b strings.Builder
	for _, e := range strings.Fields(events) {
		line, text, _ := strings.Cut(e, "*")
		n := 1
		_, _ = fmt.Sscan(text, &n)
		offset, rest, _ := strings.Cut(line, ",")
		var at float64
		if _, err := fmt.Sscan(offset, &at); err != nil {
			panic(err)
		}
		b.WriteString(strings.Repeat(fmt.Sprintf("%.3f,%s\n", 1767322800+at, rest), n))
	}
	return b.String()
}

func TestSimulate(t *testing.T) {
	const requests = `{"time":1767322800.5,"key":"a","request":"POST /login HTTP/1.1"}
{"time":1767322800.5,"key":"a","request":"POST /login?x=y HTTP/1.1"}
{"time":1767322800.5,"key":"a","method":"GET","path":"/v1/a"}
{"time":1767322801.5,"key":"a","request":"GET /v1/a"}
{"time":1767322802.5,"key":"b","request":"GET /other"}
{"time":1767322802.5,"key":"b"}
{"time":1767322802.5,"key":"b","path":"//v1/b"}
`
	const routes = `{policies: {api: {rules: [{name: m, algorithm: fixed_window, limit: 1/m}]}, login: {rules: [{name: h, algorithm: fixed_window, limit: 1/h}]}, none: {rules: [{name: x, algorithm: fixed_window, limit: 1/h}]}},
routes: {"POST /login": login, "/v1/": api}}`
	const running = "{name: running, algorithm: in_flight, limit: 1, plans: {big: 10, none: blocked}, headroom: {batch: 20}}"
	for name, test := range map[string]struct {
		file, trace, args string
		want              string
		notes             string // a part
	}{
		"two rules, one of them a shadow rule": {
			file:  policy("{name: minute, algorithm: fixed_window, limit: 2/m}, {name: hour, algorithm: sliding_log, limit: 3/h, mode: shadow}"),
			trace: csv("0,a 1,a 2,a 5,b 60,a 61,a"),
			want: `5 admitted, 1 denied, 0 delayed, 0 without a policy; 1 of 2 keys denied, 1 affected
api 5 1 0, retry 58 58 58, never 0
api.minute fixed_window 2/m: 5 1 0, most 2 of 2/m
api.hour (shadow) sliding_log 3/h: 5 1 0, most 3 of 3/h
`,
			notes: "The times of the trace are whole seconds",
		},
		"plans": {
			file:  policy("{name: r, algorithm: token_bucket, limit: 2/m, plans: {gold: 4/m, banned: blocked, staff: unlimited}}"),
			trace: csv("0.1,g,,gold*5 0.1,b,,banned 0.1,s,,staff*3 0.1,n*3 0.1,u,,silver*3"),
			want: `11 admitted, 4 denied, 0 delayed, 0 without a policy; 4 of 5 keys denied, 4 affected
api 11 4 0, retry 30 30 30, never 1
api.r token_bucket 2/m: 8 4 0, most 4 of 4/m
`,
			notes: "3 requests had a plan that no rule of the policy has, and the limits without a plan: silver.",
		},
		"plans of a file without plans": {
			file:  policy("{name: r, algorithm: token_bucket, limit: 2/m}"),
			trace: csv("0.1,g,,gold*2"),
			want: `2 admitted, 0 denied, 0 delayed, 0 without a policy; 0 of 1 keys denied, 0 affected
api 2 0 0, retry 0 0 0, never 0
api.r token_bucket 2/m: 2 0 0, most 2 of 2/m
`,
		},
		"enforced for a part of the keys, an override and a block": { // see files
			file:  `policies: {api: {enforce: 25.5, rules: [{name: r, algorithm: fixed_window, limit: 1/m}], keys: {"user:3": {blocked: true}, "user:1": {limits: {r: 2/m}}}}}`,
			trace: csv("0.1,user:2*3 0.1,user:1*3 0.1,user:3"),
			want: `5 admitted, 2 denied, 0 delayed, 0 without a policy; 2 of 3 keys denied, 2 affected
api 5 2 0, retry 60 60 60, never 1
api.r fixed_window 1/m: 3 4 0, most 2 of 2/m
`,
		},
		"overrides with an end": {
			file:  `policies: {api: {rules: [{name: r, algorithm: fixed_window, limit: 1/m}], keys: {old: {limits: {r: 3/m}, until: "2026-06-01T00:00:00Z"}, new: {limits: {r: 3/m}, until: "9999-01-01T00:00:00Z"}}}}`,
			trace: csv("30.2,old*4 30.2,new*4"),
			want: `4 admitted, 4 denied, 0 delayed, 0 without a policy; 2 of 2 keys denied, 2 affected
api 4 4 0, retry 30 30 30, never 0
api.r fixed_window 1/m: 4 4 0, most 3 of 3/m
`,
		},
		"candidate": {
			file:  policy("{name: r, algorithm: fixed_window, limit: 5/m, candidate: {algorithm: sliding_log, limit: 2/m}}"),
			trace: csv("0.1,k*3"),
			want: `3 admitted, 0 denied, 0 delayed, 0 without a policy; 0 of 1 keys denied, 0 affected
api 3 0 0, retry 0 0 0, never 0
api.r fixed_window 5/m: 3 0 0, most 3 of 5/m
api.r, candidate (shadow) sliding_log 2/m: 2 1 0, most 2 of 2/m
`,
		},
		"disabled policy": {
			file:  "policies: {api: {disabled: true, rules: [{name: r, algorithm: fixed_window, limit: 1/m}]}}",
			trace: csv("0.1,k*3"),
			want: `3 admitted, 0 denied, 0 delayed, 0 without a policy; 0 of 1 keys denied, 0 affected
api 3 0 0, retry 0 0 0, never 0
`,
		},
		"all policies disabled": {
			file:  policy("{name: r, algorithm: fixed_window, limit: 1/m}") + "\ndisabled: true",
			trace: csv("0.1,k*3"),
			want: `3 admitted, 0 denied, 0 delayed, 0 without a policy; 0 of 1 keys denied, 0 affected
api 3 0 0, retry 0 0 0, never 0
`,
		},
		// The first event departs at once, the second one after 1 s, and the third one after 2 s. The fourth one would
		// make the queue longer than 3. Half a second later, one event has left it in part.
		"leaky bucket": {
			file:  policy("{name: r, algorithm: leaky_bucket, limit: 1/s burst 3}"),
			trace: csv("0,k*4 0.5,k 1,k 9,k"),
			want: `5 admitted, 2 denied, 3 delayed, 0 without a policy; 1 of 1 keys denied, 1 affected
api 5 2 3, retry 1 1 1, never 0
api.r leaky_bucket 1/s burst 3: 5 2 3, most 1 of 1/s burst 3, queue {2 3 3}, delay {2 2 2}
`,
		},
		// 5 tokens; 2 are left; a cost of 3 needs another one, after 12 s; a cost of 6 is above the capacity.
		"costs": {
			file:  policy("{name: r, algorithm: token_bucket, limit: 5/m}"),
			trace: csv("0.1,k,3 0.1,k,3 0.1,k,6 0.1,k,2"),
			want: `2 admitted, 2 denied, 0 delayed, 0 without a policy; 1 of 1 keys denied, 1 affected
api 2 2 0, retry 12 12 12, never 1
api.r token_bucket 5/m: 2 2 0, most 5 of 5/m
`,
		},
		"largest cost": {
			file:  policy("{name: r, algorithm: sliding_window, limit: 5/m}, {name: s, algorithm: leaky_bucket, limit: 5/m, mode: shadow}"),
			trace: csv(fmt.Sprintf("0.1,k,%d*2 0.1,k", math.MaxInt)),
			want: `1 admitted, 2 denied, 0 delayed, 0 without a policy; 1 of 1 keys denied, 1 affected
api 1 2 0, retry 0 0 0, never 2
api.r sliding_window 5/m: 1 2 0, most 1 of 5/m
api.s (shadow) leaky_bucket 5/m: 1 2 0, most 1 of 5/m, queue {1 1 1}, delay {0 0 0}
`,
		},
		// February begins in Berlin at 23:00 UTC.
		"quota at the end of a month": {
			file:  policy("{name: r, algorithm: quota, limit: 2/month, timezone: Europe/Berlin}"),
			trace: "2026-01-31T22:59:58.5Z,k\n2026-01-31T22:59:58.5Z,k\n2026-01-31T22:59:59Z,k\n2026-01-31T23:00:00Z,k\n2026-01-31T23:59:59Z,k\n2026-02-01T00:00:00Z,k\n",
			want: `4 admitted, 2 denied, 0 delayed, 0 without a policy; 1 of 1 keys denied, 1 affected
api 4 2 0, retry 1 2.4156e+06 2.4156e+06, never 0
api.r quota 2/month: 4 2 0
`,
		},
		"routes": {
			file: routes, trace: requests,
			want: `5 admitted, 2 denied, 0 delayed, 2 without a policy; 1 of 2 keys denied, 1 affected
api 2 1 0, retry 59 59 59, never 0
api.m fixed_window 1/m: 2 1 0, most 1 of 1/m
login 1 1 0, retry 3600 3600 3600, never 0
login.h fixed_window 1/h: 1 1 0, most 1 of 1/h
`,
			notes: "2 requests had no policy, and no limit: no route of the file matches. -policy chooses one for them.",
		},
		"routes, and a policy for the others": {
			file: routes, trace: requests, args: "-policy api",
			want: `3 admitted, 4 denied, 0 delayed, 0 without a policy; 2 of 2 keys denied, 2 affected
api 2 3 0, retry 58 59 59, never 0
api.m fixed_window 1/m: 2 3 0, most 1 of 1/m
login 1 1 0, retry 3600 3600 3600, never 0
login.h fixed_window 1/h: 1 1 0, most 1 of 1/h
`,
		},
		// The second request to /media is denied by media alone, the last one by account alone, and /media then by both.
		"all routes": {
			file: "policies: {account: {rules: [{name: a, algorithm: fixed_window, limit: 3/h}]}, media: {rules: [{name: m, algorithm: fixed_window, limit: 1/m}]}}\n" +
				"routes: {POST /media: media}\nall_routes: account",
			trace: csv("0.1,k,,,POST_/media*2 0.1,k,,,GET_/ 0.1,k 0.1,k,,,GET_/ 0.1,k,,,POST_/media 0.1,l,,,POST_/media"),
			want: `4 admitted, 3 denied, 0 delayed, 0 without a policy; 1 of 2 keys denied, 1 affected
account 4 2 0, retry 3600 3600 3600, never 0
account.a fixed_window 3/h: 5 2 0, most 3 of 3/h
media 2 2 0, retry 60 3600 3600, never 0
media.m fixed_window 1/m: 2 2 0, most 1 of 1/m
`,
			notes: "Every request is charged to the policy account of all routes, ",
		},
		"all routes, and a policy for the others": {
			file: "policies: {account: {rules: [{name: a, algorithm: fixed_window, limit: 3/h, plans: {gold: 5/h}}]}, other: {rules: [{name: o, algorithm: fixed_window, limit: 9/m, plans: {pro: 2/m}}]}}\n" +
				"routes: {/a: account}\nall_routes: account",
			trace: csv("0.1,k,,gold,GET_/a*2 0.1,k,,gold,GET_/b*2 0.1,l,,pro,GET_/b*3"), args: "-policy other",
			want: `6 admitted, 1 denied, 0 delayed, 0 without a policy; 1 of 2 keys denied, 1 affected
account 6 0 0, retry 0 0 0, never 0
account.a fixed_window 3/h: 7 0 0, most 4 of 5/h
other 4 1 0, retry 60 60 60, never 0
other.o fixed_window 9/m: 4 1 0, most 2 of 2/m
`,
			notes: "5 requests had a plan that no rule of the policy has, and the limits without a plan: gold, pro.",
		},
		"a policy of all routes needs no routes": {
			file:  "policies: {account: {rules: [{name: a, algorithm: fixed_window, limit: 3/h}]}, media: {rules: [{name: m, algorithm: fixed_window, limit: 1/m}]}}\nall_routes: account",
			trace: csv("0.1,k*4"),
			want: `3 admitted, 1 denied, 0 delayed, 0 without a policy; 1 of 1 keys denied, 1 affected
account 3 1 0, retry 3600 3600 3600, never 0
account.a fixed_window 3/h: 3 1 0, most 3 of 3/h
`,
		},
		// A delay of one policy is that of the request.
		"all routes, with a leaky bucket": {
			file: "policies: {account: {rules: [{name: a, algorithm: leaky_bucket, limit: 1/s burst 3}]}, media: {disabled: true, rules: [{name: m, algorithm: fixed_window, limit: 1/m, candidate: {algorithm: fixed_window, limit: 1/m}}]}, blocked: {rules: [{name: b, algorithm: fixed_window, limit: 5/m}], keys: {k: {blocked: true}}}}\n" +
				"routes: {/media: media, /blocked: blocked}\nall_routes: account",
			trace: csv("0.1,k,,,GET_/media*2 0.1,k,,,GET_/blocked*2"),
			want: `2 admitted, 2 denied, 1 delayed, 0 without a policy; 1 of 1 keys denied, 1 affected
account 2 0 1, retry 0 0 0, never 0
account.a leaky_bucket 1/s burst 3: 2 0 1, most 1 of 1/s burst 3, queue {1 2 2}, delay {1 1 1}
blocked 0 2 0, retry 0 0 0, never 2
blocked.b fixed_window 5/m: 0 2 0
media 2 0 1, retry 0 0 0, never 0
`,
		},
		"one policy needs no routes": {
			file: policy("{name: m, algorithm: fixed_window, limit: 1/m}"), trace: requests,
			want: `2 admitted, 5 denied, 0 delayed, 0 without a policy; 2 of 2 keys denied, 2 affected
api 2 5 0, retry 59 60 60, never 0
api.m fixed_window 1/m: 2 5 0, most 1 of 1/m
`,
		},
		"in flight beside another rule": {
			file:  "policies: {api: {rules: [" + running + ", {name: m, algorithm: fixed_window, limit: 1/m, plans: {gold: 3/m}}], keys: {k: {limits: {running: 5}}, l: {plan: big}, m: {limits: {running: blocked}}}}}",
			trace: csv("0.1,k,,big*2 0.1,l,,gold*2 0.1,m 0.1,n,,batch 0.1,o,,none"),
			want: `3 admitted, 4 denied, 0 delayed, 0 without a policy; 4 of 5 keys denied, 4 affected
api 3 4 0, retry 60 60 60, never 2
api.running in_flight not simulated: 0 2 0
api.m fixed_window 1/m: 3 2 0, most 1 of 1/m
`,
			notes: "Rules that count requests at the same time are not simulated, because a trace has no ends of requests: api.running.",
		},
		// The policy report has no limit; its requests do not have that of the route "/".
		"in flight alone in a policy": {
			file:  "policies: {api: {rules: [{name: m, algorithm: fixed_window, limit: 1/m}]}, report: {rules: [" + running + "], keys: {bad: {blocked: true}, k: {plan: big}}}}\nroutes: {/: api, POST /report: report}",
			trace: csv("0.1,k,,,POST_/report*2 0.1,bad,,,POST_/report 0.1,k,,,GET_/report*2"),
			want: `3 admitted, 2 denied, 0 delayed, 0 without a policy; 2 of 2 keys denied, 2 affected
api 1 1 0, retry 60 60 60, never 0
api.m fixed_window 1/m: 1 1 0, most 1 of 1/m
report 2 1 0, retry 0 0 0, never 1
report.running in_flight not simulated: 0 1 0
`,
			notes: "has no ends of requests: report.running.",
		},
		"pause": {
			file:  "policies: {api: {rules: [{name: stop, algorithm: pause}, {name: m, algorithm: fixed_window, limit: 1/m}], keys: {bad: {blocked: true}}}, other: {rules: [{name: p, algorithm: pause}]}}\nroutes: {/: api, /other: other}",
			trace: csv("0.1,k,,,GET_/*2 0.1,bad,,,GET_/ 0.1,k,,,GET_/other*2"),
			want: `3 admitted, 2 denied, 0 delayed, 0 without a policy; 2 of 2 keys denied, 2 affected
api 1 2 0, retry 60 60 60, never 1
api.stop pause not simulated: 0 1 0
api.m fixed_window 1/m: 1 2 0, most 1 of 1/m
other 2 0 0, retry 0 0 0, never 0
`,
			notes: "No key is paused, because a trace does not tell when a program has paused one: api.stop, other.p.",
		},
		"in flight by cost": {
			file:  policy("{name: m, algorithm: fixed_window, limit: 4/m}, {name: n, algorithm: in_flight, limit: 90000, by_cost: true, headroom: {batch: 20}}"),
			trace: csv("0.1,k*5"),
			want: `4 admitted, 1 denied, 0 delayed, 0 without a policy; 1 of 1 keys denied, 1 affected
api 4 1 0, retry 60 60 60, never 0
api.m fixed_window 4/m: 4 1 0, most 4 of 4/m
`,
			notes: "Rules that count requests at the same time are not simulated, because a trace has no ends of requests: api.n.",
		},
		"in flight as a candidate": {
			file:  policy("{name: m, algorithm: fixed_window, limit: 1/m, candidate: {algorithm: in_flight, limit: 1}}, {name: n, algorithm: in_flight, limit: 1, candidate: {algorithm: fixed_window, limit: 2/m}}"),
			trace: csv("0.1,k*2"),
			want: `1 admitted, 1 denied, 0 delayed, 0 without a policy; 1 of 1 keys denied, 1 affected
api 1 1 0, retry 60 60 60, never 0
api.m fixed_window 1/m: 1 1 0, most 1 of 1/m
api.n, candidate (shadow) fixed_window 2/m: 2 0 0, most 1 of 2/m
`,
			notes: "has no ends of requests: api.m (candidate), api.n.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "f.yaml", test.file)
			write(t, "trace", strings.ReplaceAll(test.trace, "_", " "))
			r := simulateArgs(t, append([]string{"f.yaml", "trace"}, strings.Fields(test.args)...)...)
			if got := r.figures(); got != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
			if r.Requests != r.Admitted+r.Denied {
				t.Errorf("got %d requests", r.Requests)
			}
			if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, test.notes) || !strings.HasPrefix(notes, "Simulated clients do not adapt: ") {
				t.Errorf("got the notes:\n%s\nwant:\n%s", notes, test.notes)
			}
		})
	}
}

// The text has the figures of the JSON.
func TestSimulate_Text(t *testing.T) {
	for name, test := range map[string]struct {
		file, trace, args string
		want              string
	}{
		"one request": {
			file:  policy("{name: r, algorithm: fixed_window, limit: 5/m}"),
			trace: csv("0.25,k"),
			want: `f.yaml applied to trace: 1 request of 1 key in 0s, from 2026-01-02T03:00:00Z

  admitted  1  100.0 %
    denied  0    0.0 %

Keys that were denied at least once: 0 of 1 (0.0 %); more than 5 % of their requests: 0.
Policy api denied 0 of 1 request.

POLICY  RULE  ALGORITHM     LIMIT  DENIES  DELAYS  MOST LET THROUGH IN A PERIOD, FOR ONE KEY
api     r     fixed_window  5/m    0       0       1 of 5 per 1m

Simulated clients do not adapt: each request comes at the time of the trace, also if a real client would have waited after a denial.
`,
		},
		"all": {
			file: policy("{name: second, algorithm: leaky_bucket, limit: 1/s burst 3}, {name: ten, algorithm: token_bucket, limit: 4/10s burst 20, mode: shadow}, " +
				"{name: month, algorithm: quota, limit: 1000/month, candidate: {algorithm: sliding_log, limit: 1/30m}}"),
			trace: csv("0,user:2*4 0.5,user:2 1,user:2 9,user:2 9.5,user:1,4*2 9.75,user:1"),
			args:  "-keys",
			want: `f.yaml applied to trace: 10 requests of 2 keys in 9.75s, from 2026-01-02T03:00:00Z

       admitted  6  60.0 %
  after a delay  3  30.0 %
         denied  4  40.0 %

Keys that were denied at least once: 2 of 2 (100.0 %); more than 5 % of their requests: 2.
Policy api denied 4 of 10 requests (40.0 %), those of 2 keys. Retry-After is at most 1s for half of them, 1s for 99 %, and 1s for all. 2 requests can never be admitted.

POLICY  RULE                       ALGORITHM     LIMIT           DENIES  DELAYS  MOST LET THROUGH IN A PERIOD, FOR ONE KEY
api     second                     leaky_bucket  1/s burst 3     4       3       1 of 1 per 1s
api     ten (shadow)               token_bucket  4/10s burst 20  0       0       5 of 4 per 10s (1.25 x)
api     month                      quota         1000/month      0       0       –
api     month, candidate (shadow)  sliding_log   1/30m           8       0       1 of 1 per 30m
Queue of api.second, in units of cost: at most 1 for half of the admitted requests, 3 for 99 % of them, and 3 for all; delays of up to 2s.

Requests in each 500ms:
admitted  █ ▂               ▂▂  at most 3
denied    ▄▄                 █  at most 2
          2026-01-02 03:00:00  2026-01-02 03:00:09

The keys with the most denials:
     KEY  REQUESTS  DENIED        BY POLICY
  user:1         3       2  66.7 %  api 2
  user:2         7       2  28.6 %  api 2

Simulated clients do not adapt: each request comes at the time of the trace, also if a real client would have waited after a denial.
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "f.yaml", test.file)
			write(t, "trace", test.trace)
			if got := output(t, append([]string{"simulate", "f.yaml", "trace"}, strings.Fields(test.args)...)...); got != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
		})
	}
}

// A report tells which policy denied a key. A report about no policy is an error.
func TestSimulate_Policies(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "f.yaml", `policies:
  api: {rules: [{name: r, algorithm: fixed_window, limit: 2/m}], keys: {absent: {limits: {r: 1/m}}, ann: {limits: {r: 1/m}}}}
  login: {rules: [{name: r, algorithm: fixed_window, limit: 1/m}]}
routes: {/api/: api, POST /login: login}
`)
	lines := func(key, request string, n int) string {
		return strings.Repeat(fmt.Sprintf("{\"time\":1767322800.5,\"key\":%q,\"request\":%q}\n", key, request), n)
	}
	write(t, "trace", lines("ann", "GET /api/x", 3)+lines("ann", "POST /login", 4)+lines("bob", "GET /api/x", 3)+lines("bob", "GET /other", 2))
	want := `f.yaml applied to trace: 12 requests of 2 keys in 0s, from 2026-01-02T03:00:00Z

  without a policy  2  16.7 %
          admitted  4  33.3 %
            denied  6  50.0 %

Keys that were denied at least once: 2 of 2 (100.0 %); more than 5 % of their requests: 2.
Policy api denied 3 of 6 requests (50.0 %), those of 2 keys. Retry-After is at most 1m for half of them, 1m for 99 %, and 1m for all.
Policy login denied 3 of 4 requests (75.0 %), those of 1 key. Retry-After is at most 1m for half of them, 1m for 99 %, and 1m for all.

POLICY  RULE  ALGORITHM     LIMIT  DENIES  DELAYS  MOST LET THROUGH IN A PERIOD, FOR ONE KEY
api     r     fixed_window  2/m    3       0       2 of 2 per 1m
login   r     fixed_window  1/m    3       0       1 of 1 per 1m

The keys with the most denials:
  KEY  REQUESTS  DENIED        BY POLICY
  ann         7       5  71.4 %  api 2, login 3
  bob         5       1  20.0 %  api 1

Simulated clients do not adapt: each request comes at the time of the trace, also if a real client would have waited after a denial.
2 requests had no policy, and no limit: no route of the file matches. -policy chooses one for them.
The trace does not have the keys of 1 override of the file.
`
	if got := output(t, "simulate", "f.yaml", "trace", "-keys"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	s := simulateArgs(t, "f.yaml", "trace", "-keys")
	if by := s.TopKeys[0].DeniedBy; len(by) != 2 || by["api"] != 2 || by["login"] != 3 || s.NoPolicy != 2 || s.Admitted != 6 || s.Policies[0].DeniedKeys != 2 || s.Policies[1].DeniedKeys != 1 {
		t.Errorf("got %+v", s)
	}
	write(t, "others", lines("bob", "GET /other", 2))
	for _, args := range []string{"simulate f.yaml others", "simulate f.yaml steady:for=1s", "simulate f.yaml adversary", "diff f.yaml f.yaml -trace others"} {
		var stdout, stderr strings.Builder
		if status := run(strings.Fields(args), &stdout, &stderr); status != 1 || stdout.Len() > 0 || !strings.HasPrefix(stderr.String(), "weir: no request has a policy, because no route of f.yaml matches: ") {
			t.Errorf("%s: got status %d and %s", args, status, &stderr)
		}
	}
}

// All fields of the JSON.
func TestSimulate_JSON(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "f.yaml", policy("{name: r, algorithm: leaky_bucket, limit: 1/s burst 2}"))
	write(t, "trace", csv("0,k*3 0.25,l"))
	const want = `{
  "file": "f.yaml",
  "trace": "trace",
  "warnings": [],
  "first": "2026-01-02T03:00:00Z",
  "last": "2026-01-02T03:00:00.25Z",
  "requests": 4,
  "admitted": 3,
  "denied": 1,
  "delayed": 1,
  "no_policy": 0,
  "keys": 2,
  "denied_keys": 1,
  "affected_keys": 1,
  "policies": [
    {
      "name": "api",
      "requests": 4,
      "admitted": 3,
      "denied": 1,
      "delayed": 1,
      "denied_keys": 1,
      "retry_after": {
        "median": 1,
        "p99": 1,
        "max": 1
      },
      "never": 0,
      "rules": [
        {
          "name": "r",
          "algorithm": "leaky_bucket",
          "limit": "1/s burst 2",
          "shadow": false,
          "admitted": 3,
          "denied": 1,
          "delayed": 1,
          "delay": {
            "median": 1,
            "p99": 1,
            "max": 1
          },
          "queue": {
            "median": 1,
            "p99": 2,
            "max": 2
          },
          "most": {
            "admitted": 1,
            "limit": "1/s burst 2",
            "events": 1,
            "begin": "2026-01-02T03:00:00Z",
            "key": "k",
            "at_least": false
          }
        }
      ]
    }
  ],
  "top_keys": [
    {
      "key": "k",
      "requests": 3,
      "denied": 1,
      "delayed": 1,
      "denied_by": {
        "api": 1
      }
    }
  ],
  "timeline": {
    "begin": "2026-01-02T03:00:00Z",
    "seconds": 0.1,
    "admitted": [
      2,
      0,
      1
    ],
    "denied": [
      1,
      0,
      0
    ]
  },
  "notes": [
    "Simulated clients do not adapt: each request comes at the time of the trace, also if a real client would have waited after a denial."
  ]
}
`
	if got := output(t, "simulate", "-json", "-keys", "f.yaml", "trace"); got != want {
		t.Errorf("got:\n%s", got)
	}
}

// A trace is one file or several, plain or compressed, or the standard input. All have the same report.
func TestSimulate_Traces(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("WEIR_KEY_SECRET", "secret")
	write(t, "f.yaml", policy("{name: r, algorithm: fixed_window, limit: 1/m}"))
	write(t, "trace", csv("0,192.0.2.1*2 1.5,192.0.2.2 2,192.0.2.1 3,192.0.2.1"))
	write(t, "-keys", csv("0,192.0.2.1*2 1.5,192.0.2.2 2,192.0.2.1 3,192.0.2.1"))
	write(t, "a", csv("0,192.0.2.1*2 2,192.0.2.1"))
	write(t, "b.json", `{"ts":"2026-01-02T03:00:01.5Z","remote_addr":"192.0.2.2:1234"}`+"\n"+`{"ts":"2026-01-02 03:00:03","who":"x","remote_addr":"192.0.2.1"}`+"\n")
	write(t, "c.csv", "when,plan,addr,n\n1767322800,,192.0.2.1,1\n1767322800,,192.0.2.1,\n1767322801.5,,192.0.2.2,\n1767322802,,192.0.2.1,\n1767322803,,192.0.2.1,1\n")
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(csv("0,192.0.2.1*2 1.5,192.0.2.2 2,192.0.2.1 3,192.0.2.1")))
	_ = z.Close()
	write(t, "z.gz", zipped.String())
	write(t, "cut.gz", zipped.String()[:zipped.Len()-9])
	stdin, err := os.Open("trace")
	testkit.Must(t, err)
	defer stdin.Close()
	defer func(old *os.File) { os.Stdin = old }(os.Stdin)
	os.Stdin = stdin

	want := simulateArgs(t, "f.yaml", "trace")
	if want.Denied != 3 || want.Keys != 2 {
		t.Fatalf("got %+v", want)
	}
	for _, args := range []string{
		"f.yaml -", "f.yaml a b.json", "f.yaml b.json a", "f.yaml z.gz", "f.yaml c.csv -time when -key addr -cost n", "-key addr f.yaml -time=when c.csv -format csv", "-- f.yaml -keys", "-policy api f.yaml -- trace",
		"f.yaml trace -top 10",
	} {
		got := simulateArgs(t, strings.Fields(args)...)
		got.Trace = "trace"
		a, _ := json.Marshal(got)
		if b, _ := json.Marshal(want); !bytes.Equal(a, b) {
			t.Errorf("%s: got %s, want %s", args, a, b)
		}
	}
}

// Lines that cannot be read, late ones and those with the status 429 are in the notes.
func TestSimulate_Notes(t *testing.T) {
	const line = `192.0.2.%d - - [02/Jan/2026:03:%02d:00 +0000] "GET / HTTP/1.1" %d 5` + "\n"
	good := fmt.Sprintf(line, 1, 10, 200)
	for name, test := range map[string]struct {
		trace string
		want  []string
	}{
		"good":    {good, nil},
		"limited": {fmt.Sprintf(line, 1, 10, 429), []string{"1 request of the trace had the status 429. Such requests count as demand, like all others."}},
		"several limited": {fmt.Sprintf(line, 1, 10, 429) + fmt.Sprintf(line, 2, 10, 429),
			[]string{"2 requests of the trace had the status 429. Such requests count as demand, like all others."}},
		"late": {good + fmt.Sprintf(line, 2, 12, 200) + fmt.Sprintf(line, 1, 14, 200) + fmt.Sprintf(line, 3, 1, 200),
			[]string{"1 request was read too late to be sorted, and given the time of the request before."}},
		"several late": {good + fmt.Sprintf(line, 2, 12, 200) + fmt.Sprintf(line, 1, 14, 200) + fmt.Sprintf(line, 3, 1, 200) + fmt.Sprintf(line, 4, 2, 200),
			[]string{"2 requests were read too late to be sorted, and given the time of the request before."}},
		"broken": {good + "\x1b[2Jbroken\n", []string{"1 line could not be read:", `  trace:2: not a line of the common or combined log format: \x1b[2Jbroken`}},
		"several broken": {"?\n\n" + good + strings.Repeat("!\n", 6), []string{"7 lines could not be read:",
			"  trace:1: neither a JSON object, nor a line of a log, nor CSV with a column for the time: ?", "  trace:4: not a line of the common or combined log format: !",
			"  trace:5: not a line of the common or combined log format: !", "  trace:6: not a line of the common or combined log format: !", "  trace:7: not a line of the common or combined log format: !"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "f.yaml", policy("{name: r, algorithm: fixed_window, limit: 1/m}"))
			write(t, "trace", test.trace)
			want := slices.Concat([]string{
				"Simulated clients do not adapt: each request comes at the time of the trace, also if a real client would have waited after a denial.",
				"The times of the trace are whole seconds: the requests of a second count as sent at once, so limits of some seconds deny more than in reality.",
			}, test.want)
			got := simulateArgs(t, "f.yaml", "trace").Notes
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			text := output(t, "simulate", "f.yaml", "trace")
			for _, n := range want {
				if !strings.Contains(text, n+"\n") {
					t.Errorf("the text has no note %s", n)
				}
			}
		})
	}
}

// Reports have hashes of keys, which depend on a secret, or with -keys the keys without control characters.
func TestSimulate_Keys(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "f.yaml", policy("{name: r, algorithm: fixed_window, limit: 1/m}"))
	var trace strings.Builder
	for i, key := range []string{"ann", "b\x1b[2J\x7f\u009b\u202ec", `d"e\`} {
		line, _ := json.Marshal(map[string]any{"time": 1767322800.5, "key": key})
		trace.WriteString(strings.Repeat(string(line)+"\n", 4-i))
	}
	write(t, "trace", trace.String())
	write(t, "lines.json", `{"time":1767322800.5,"key":"x\ny\tz\rw"}`+"\n"+`{"time":1767322800.5,"key":"x\ny\tz\rw"}`)
	hash := regexp.MustCompile("^#[0-9a-f]{12}$")
	keys := func(args ...string) (keys []string) {
		r := simulateArgs(t, append([]string{"f.yaml", "trace"}, args...)...)
		for _, k := range r.TopKeys {
			keys = append(keys, k.Key)
		}
		if n := len(keys); n > 0 && r.Policies[0].Rules[0].Most.Key != keys[0] {
			t.Errorf("got the key %s of the most requests, want %s", r.Policies[0].Rules[0].Most.Key, keys[0])
		}
		return keys
	}
	t.Setenv("WEIR_KEY_SECRET", "")
	first, second := keys(), keys()
	for i := range 3 {
		if first[i] == second[i] || !hash.MatchString(first[i]) || first[i] == first[(i+1)%3] {
			t.Errorf("got the hashes %v and %v", first, second)
		}
	}
	t.Setenv("WEIR_KEY_SECRET", "a")
	first = keys()
	if second = keys(); !slices.Equal(first, second) || !hash.MatchString(first[0]) {
		t.Errorf("got the hashes %v and %v", first, second)
	}
	t.Setenv("WEIR_KEY_SECRET", "b")
	if second = keys(); slices.Equal(first, second) {
		t.Errorf("got the hashes %v with two secrets", first)
	}
	if got := output(t, "simulate", "f.yaml", "trace"); !strings.Contains(got, second[0]) || strings.Contains(got, "ann") {
		t.Errorf("got %s", got)
	}
	want := []string{"ann", `b\x1b[2J\x7f\u009b\u202ec`, `d"e\\`}
	if got := keys("-keys"); !slices.Equal(got, want) {
		t.Errorf("got the keys %q, want %q", got, want)
	}
	got := output(t, "simulate", "f.yaml", "trace", "-keys")
	for _, key := range want {
		if !strings.Contains(got, " "+key+"  ") || strings.ContainsAny(got, "\x1b\x7f\u009b\u202e") {
			t.Errorf("got %q, want %s", got, key)
		}
	}
	if got := output(t, "simulate", "f.yaml", "lines.json", "-keys"); !strings.Contains(got, "\n  x\\ny\\tz\\rw         2       1  50.0 %  api 1\n") {
		t.Errorf("got %q", got)
	}
	if got := keys("-top", "2", "-keys"); !slices.Equal(got, want[:2]) {
		t.Errorf("got the keys %q", got)
	}
	for _, top := range []string{"0", "-1"} {
		if got := output(t, "simulate", "f.yaml", "trace", "-top", top); strings.Contains(got, "The keys") {
			t.Errorf("-top %s: got %s", top, got)
		}
		if got := keys("-top", top); len(got) != 0 {
			t.Errorf("-top %s: got %q", top, got)
		}
	}
}

// The most of a rule is relative to its limit. An adversary attacks the limits of its plan.
func TestSimulate_Generators(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "f.yaml", "policies: {api: {rules: [{name: r, algorithm: fixed_window, limit: 10/m, plans: {gold: 100/m, staff: unlimited}}]}, b: {rules: [{name: r, algorithm: token_bucket, limit: 1/s burst 50}]}}\nroutes: {GET /: api, POST /: b}")
	for args, want := range map[string]string{
		"adversary:clients=2,request=GET /":           "20 of 10/m",
		"adversary:clients=1,plan=gold,request=GET /": "200 of 100/m",
		"adversary:clients=1,request=POST /":          "50 of 1/s burst 50",
		"steady:rate=1/m,clients=3,request=GET /":     "1 of 10/m",
		"burst:rate=5/m,every=1m,request=GET /":       "5 of 10/m",
		"poisson:rate=100/s,for=5s,request=GET /":     "10 of 10/m",
	} {
		r := simulateArgs(t, "f.yaml", args)
		m := r.Policies[0].Rules[0].Most
		if got := fmt.Sprintf("%d of %s", m.Admitted, m.Limit); got != want || r.NoPolicy != 0 || r.Trace != args {
			t.Errorf("%s: got %s, want %s", args, got, want)
		}
	}
}

func TestSimulate_Errors(t *testing.T) {
	const describe = `; describe its lines with -format in the syntax of nginx, such as '$remote_addr - $remote_user [$time_local] "$request" $status'`
	t.Chdir(t.TempDir())
	write(t, "f.yaml", policy("{name: r, algorithm: quota, limit: 1/month}"))
	write(t, "two.yaml", "policies: {a: {rules: [{name: r, algorithm: fixed_window, limit: 1/m}]}, b: {rules: [{name: r, algorithm: in_flight, limit: 1}]}}")
	write(t, "staff.yaml", policy("{name: r, algorithm: fixed_window, limit: 1/m, plans: {staff: unlimited}}"))
	write(t, "empty", "")
	write(t, "blank", "\n\n")
	write(t, "header", "time,key\n")
	write(t, "noise", "\x1b[2Jnoise\nmore\n")
	write(t, "good", csv("0.5,k"))
	write(t, "cut.gz", "\x1f\x8b\x08\x00")
	write(t, "user.json", `{"time":1767322800.5,"user":{"id":"ann"}}`)
	for args, want := range map[string]string{
		"missing.yaml good":                    "open missing.yaml: no such file or directory",
		"good good":                            "good:1:1: ",
		"f.yaml missing":                       "open missing: no such file or directory; a trace is a file, - or a generator: steady, poisson, burst, adversary",
		"f.yaml good missing":                  "open missing: no such file or directory; a trace is a file, - or a generator: steady, poisson, burst, adversary",
		"f.yaml .":                             "read .: is a directory",
		"f.yaml empty":                         "empty has no requests",
		"f.yaml blank":                         "blank has no requests",
		"f.yaml header empty":                  "header empty has no requests",
		"f.yaml noise":                         `noise has no request that can be read: noise:1: neither a JSON object, nor a line of a log, nor CSV with a column for the time: \x1b[2Jnoise` + describe,
		"f.yaml cut.gz":                        "cut.gz: unexpected EOF",
		"f.yaml user.json -key user":           `user.json has no request that can be read: user.json:1: no key: the field "user" is absent or has no text: {"time":1767322800.5,"user":{"id":"ann"}}; name its fields with -time and -key; it has time, user.id`,
		"f.yaml - -":                           "the standard input is named twice",
		"f.yaml good -key who":                 `good: no header with a column "who"`,
		"f.yaml steady:rate=1":                 `steady:rate=1: rate is "1", and not a number of requests in a fixed period, such as 100/s`,
		"f.yaml steady:x=1":                    `steady:x=1: unknown parameter "x"; the parameters are rate, clients, for, every, seed, cost, plan, request`,
		"f.yaml steady:clients=0":              `steady:clients=0: clients is "0", and not a number from 1 to 1000000`,
		"f.yaml good steady":                   "steady is a generator, and cannot be combined with other traces",
		"f.yaml steady poisson":                "steady is a generator, and cannot be combined with other traces",
		"f.yaml adversary":                     "an adversary needs a rule with a fixed period",
		"staff.yaml adversary:plan=staff":      "an adversary needs a rule with a fixed period",
		"staff.yaml adversary:for=1ms":         "adversary:for=1ms has no requests",
		"f.yaml good -policy b":                `f.yaml has no policy "b"; it has api`,
		"two.yaml good":                        "two.yaml has no routes and the policies a, b: choose one with -policy",
		"two.yaml good -policy c":              `two.yaml has no policy "c"; it has a, b`,
		"two.yaml adversary -policy b -json":   "an adversary needs a rule with a fixed period",
		"f.yaml adversary:rate=1/s -keys":      "adversary:rate=1/s: an adversary has the rate of the limits",
		"f.yaml good -format json -policy api": "good has no request that can be read: good:1: not a JSON object: 1767322800.500,k; leave -format out, or" + strings.TrimPrefix(describe, ";"),
	} {
		var stdout, stderr strings.Builder
		if status := run(append([]string{"simulate"}, strings.Fields(args)...), &stdout, &stderr); status != 1 || stdout.Len() > 0 {
			t.Errorf("%s: got status %d and stdout %s", args, status, &stdout)
		}
		if got := stderr.String(); strings.TrimPrefix(got, "weir: ") != want+"\n" && !(strings.HasSuffix(want, ": ") && strings.HasPrefix(got, want)) {
			t.Errorf("%s: got %s, want %s", args, got, want)
		}
	}
}
