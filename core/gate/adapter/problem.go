package adapter

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
)

// maxInstance keeps a long path from coming back in every answer.
const maxInstance = 1 << 10

// newProblem says no more than the status does.
func newProblem(r *http.Request, status int) *gate.Problem {
	p := &gate.Problem{Type: gate.TypeBlank, Title: http.StatusText(status), Status: status}
	if len(r.URL.Path) <= maxInstance {
		if path := r.URL.EscapedPath(); len(path) <= maxInstance {
			p.Instance = path
		}
	}
	return p
}

// quotaProblem is the answer 429 to a denied request. retry is in seconds, zero if
// there is no use in waiting.
func quotaProblem(r *http.Request, d core.Decision, retry int64) *gate.Problem {
	p := newProblem(r, http.StatusTooManyRequests)
	p.Type = gate.TypeQuotaExceeded
	p.Title = "Request cannot be satisfied as assigned quota has been exceeded"
	var named core.State
	for _, s := range d.States() {
		if s.Allowed || s.Rule.IsShadow() {
			continue
		}
		// The text is about the rule that the retry is of.
		if named.Rule == (core.Rule{}) || s.RetryAfter > named.RetryAfter {
			named = s
		}
		if name := s.Rule.Name(); !slices.Contains(p.Violated, name) {
			p.Violated = append(p.Violated, name)
		}
	}
	if named.Rule != (core.Rule{}) {
		p.Detail = describe(named.Rule, retry)
	}
	return p
}

// describe tells a client about a rule that denied.
func describe(rule core.Rule, retry int64) string {
	l := rule.Limit()
	b := append([]byte("Policy "), appendString(nil, rule.Name())...)
	b = append(b, " allows "...)
	b = appendRequests(b, l.Events)
	b = append(b, " per "...)
	b = appendSpan(b, l.Per)
	if burst := rule.Capacity(); burst != l.Events {
		b = append(b, ", "...)
		b = strconv.AppendInt(b, int64(burst), 10)
		b = append(b, " at once"...)
	}
	if retry == 0 {
		return string(append(b, ". This request costs more than the policy ever allows."...))
	}
	b = append(b, ". Retry in "...)
	b = strconv.AppendInt(b, retry, 10)
	return string(append(b, " s."...))
}

func appendRequests(b []byte, n int) []byte {
	b = strconv.AppendInt(b, int64(n), 10)
	if n == 1 {
		return append(b, " request"...)
	}
	return append(b, " requests"...)
}

// appendSpan writes d in the largest of s, ms and µs that it fills once.
func appendSpan(b []byte, d time.Duration) []byte {
	unit, name := time.Microsecond, " µs"
	switch {
	case d >= time.Second:
		unit, name = time.Second, " s"
	case d >= time.Millisecond:
		unit, name = time.Millisecond, " ms"
	}
	b = strconv.AppendFloat(b, float64(d)/float64(unit), 'f', -1, 64)
	return append(b, name...)
}

// WriteProblem answers r with the status of p and the problem document, or a line of text to
// a client that names text/plain or text/html first in Accept. To HEAD it sends no body. It
// sets Content-Type, and X-Content-Type-Options to nosniff.
func WriteProblem(w http.ResponseWriter, r *http.Request, p *gate.Problem) {
	contentType, body := gate.ProblemMediaType, []byte(nil)
	if wantsText(r.Header.Get("Accept")) {
		contentType, body = "text/plain; charset=utf-8", []byte(p.String())
	} else if doc, err := json.Marshal(p); err == nil {
		body = doc
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff") // the path of the request is in the document
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(append(body, '\n')) // a client that has gone cannot be told
	}
}

// wantsText looks at the first media range only. Browsers start with text/html,
// and whoever can read the document says so first.
func wantsText(accept string) bool {
	first, _, _ := strings.Cut(accept, ",")
	first, _, _ = strings.Cut(first, ";")
	first = strings.Trim(first, " \t")
	return strings.EqualFold(first, "text/plain") || strings.EqualFold(first, "text/html")
}
