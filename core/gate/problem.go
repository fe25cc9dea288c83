package gate

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir/core"
)

// ProblemMediaType is the media type of a [Problem] in JSON.
const ProblemMediaType = "application/problem+json"

// Problem types of draft-ietf-httpapi-ratelimit-headers-11 section 5, and the
// one of RFC 9457 section 4.2.1 that says no more than the status.
const (
	TypeQuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	TypeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	TypeBlank           = "about:blank"
)

// A Problem is the document that a client gets instead of the handler's answer
// (RFC 9457):
//
//	{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",
//	 "title":"Request cannot be satisfied as assigned quota has been exceeded",
//	 "status":429,"detail":"Policy \"burst\" allows 100 requests per 60 s. Retry in 12 s.",
//	 "instance":"/v1/orders","violated-policies":["burst"]}
//
// It holds nothing that is not for the client: no key, no address and no text of
// an error.
type Problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title,omitempty"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Instance string   `json:"instance,omitempty"`          // the escaped path of the request, without its query
	Violated []string `json:"violated-policies,omitempty"` // the names of the rules that denied

	beforeMarshal func()
}

// BeforeMarshal makes f run whenever p is about to become JSON. It is for
// adapters of frameworks that write errors themselves and tell nobody before.
func (p *Problem) BeforeMarshal(f func()) { p.beforeMarshal = f }

// MarshalJSON writes the document.
func (p *Problem) MarshalJSON() ([]byte, error) {
	if p.beforeMarshal != nil {
		p.beforeMarshal()
	}
	type document Problem // without this method
	return json.Marshal((*document)(p))
}

// String is the problem as a short text for people.
func (p *Problem) String() string {
	switch {
	case p.Detail != "":
		return p.Detail
	case p.Title != "":
		return p.Title
	}
	return strconv.Itoa(p.Status)
}

// maxInstance keeps a long path from coming back in every answer.
const maxInstance = 1 << 10

// newProblem says no more than the status does.
func newProblem(r *http.Request, status int) *Problem {
	p := &Problem{Type: TypeBlank, Title: http.StatusText(status), Status: status}
	if len(r.URL.Path) <= maxInstance {
		if path := r.URL.EscapedPath(); len(path) <= maxInstance {
			p.Instance = path
		}
	}
	return p
}

// quotaProblem is the answer to a denied request. retry is in seconds, zero if
// there is no use in waiting.
func quotaProblem(r *http.Request, d core.Decision, retry int64) *Problem {
	p := newProblem(r, http.StatusTooManyRequests)
	p.Type = TypeQuotaExceeded
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
		p.violate(s.Rule.Name())
	}
	if named.Rule != (core.Rule{}) {
		p.Detail = describe(named.Rule, retry)
	}
	return p
}

func (p *Problem) violate(name string) {
	for _, v := range p.Violated {
		if v == name {
			return
		}
	}
	p.Violated = append(p.Violated, name)
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
