package gatetest

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
)

// testDeniedStatus checks the statuses that an application chooses for denied requests.
func (s *suite) testDeniedStatus(t *testing.T) {
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
		name:   "chosen: the document describes the status, and the header fields stay the same",
		opts:   chosen(403),
		states: once,
		status: 403,
		header: map[string]string{"Retry-After": "12", "RateLimit": fields, "RateLimit-Policy": `"burst";q=100;w=60`},
		body:   violates(403, "Forbidden", retry12, `"burst"`),
	}, {
		name:   "chosen, text",
		opts:   chosen(403),
		states: once,
		req:    accept("text/plain"),
		status: 403,
		text:   true,
		body:   `Policy "burst" allows 100 requests per 60 s. Retry in 12 s.` + "\n",
	}, {
		name:   "chosen, HEAD",
		opts:   chosen(403),
		states: once,
		req:    func() *http.Request { return request("HEAD", "/v1/orders") },
		status: 403,
		header: map[string]string{"Retry-After": "12"},
	}, {
		name:   "chosen, 401: has a challenge",
		opts:   chosen(401),
		states: once,
		status: 401,
		header: map[string]string{"Retry-After": "12", "WWW-Authenticate": "Bearer"},
		body:   violates(401, "Unauthorized", retry12, `"burst"`),
	}, {
		name:   "chosen, 599: a status without a text has no title",
		opts:   chosen(599),
		states: once,
		status: 599,
		body:   violates(599, "", retry12, `"burst"`),
	}, {
		name:   "chosen by the decision, too expensive",
		opts:   []gate.Option{byDecision},
		states: states{"burst": {Remaining: 100, RetryAfter: core.Never}},
		status: 413,
		header: map[string]string{"Retry-After": "", "RateLimit": `"burst";r=100`},
		body: violates(413, "Request Entity Too Large",
			`Policy \"burst\" allows 100 requests per 60 s. This request costs more than the policy ever allows.`, `"burst"`),
	}, {
		name:    "chosen by the decision, blocked",
		rules:   []core.Rule{planned, daily},
		opts:    []gate.Option{byDecision, gate.Plan(constant("banned"))},
		status:  403,
		header:  map[string]string{"Retry-After": "", "RateLimit": `"api";r=0`},
		body:    violates(403, "Forbidden", `Policy \"api\" allows no requests.`, `"api"`),
		noStore: true,
	}, {
		name:    "default, blocked",
		rules:   []core.Rule{planned, daily},
		opts:    []gate.Option{gate.Plan(constant("banned"))},
		status:  429,
		header:  map[string]string{"Retry-After": ""},
		body:    document(`Policy \"api\" allows no requests.`, `"api"`),
		noStore: true,
	}, {
		name:   "default beside an unlimited rule: only the rule that denied is described",
		rules:  []core.Rule{planned, burst},
		opts:   []gate.Option{byDecision, gate.Plan(constant("staff"))},
		status: 429,
		header: map[string]string{"Retry-After": "12", "RateLimit": fields},
		body:   document(retry12, `"burst"`),
	}}
	for _, status := range []int{-1, 0, 200, 302, 399, 600} {
		rows = append(rows, row{name: "default in place of " + strconv.Itoa(status), opts: chosen(status), status: 429, body: document(retry12, `"burst"`)})
	}
	for _, status := range []int{400, 422, 503} {
		rows = append(rows, row{
			name: "chosen, " + strconv.Itoa(status), opts: chosen(status), states: once, status: status, header: map[string]string{"Retry-After": "12"},
		})
	}
	s.table(t, rows)
	t.Run("not for other rejections", func(t *testing.T) {
		a := s.start(setup{key: noKey(errSecret), opts: append(chosen(403), quiet)})
		a.gets(t, 500)
	})
}
