package gate

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir/core"
)

// ProblemMediaType is the media type of a [Problem] in JSON.
const ProblemMediaType = "application/problem+json"

// Problem types, see Problem.Type. The other one is unexported.TypeQuotaExceeded.
const (
	typeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	typeBlank           = "about:blank"
)

// A Problem is the document that a client gets instead of the handler's response (RFC 9457):
//
//	{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",
//	 "title":"Request cannot be satisfied as assigned quota has been exceeded",
//	 "status":429,"detail":"Policy \"burst\" allows 100 requests per 60 s. Retry in 12 s.",
//	 "instance":"/v1/orders","violated-policies":["burst"]}
//
// A Problem is fit for clients: it contains no key, no address and no text of an error.
type Problem struct {
	// Type is one of the problem types of draft-ietf-httpapi-ratelimit-headers-11 section 5, which end in
	// #quota-exceeded (429) and #temporary-reduced-capacity (503), or about:blank (RFC 9457 section
	// 4.2.1), which adds nothing to the Status. IANA registers the two types when the draft becomes an RFC:
	// until then, there is no page at their address.
	Type     string   `json:"type"`
	Title    string   `json:"title,omitempty"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Instance string   `json:"instance,omitempty"`          // the escaped path of the request, without its query
	Violated []string `json:"violated-policies,omitempty"` // the names of the rules that denied
}

// String returns the Detail, or else the Title, or else the Status as a number.
func (p *Problem) String() string {
	return cmp.Or(p.Detail, p.Title, strconv.Itoa(p.Status))
}

// maxInstance is the length, in bytes, of the longest path that a problem document contains.
const maxInstance = 1 << 10

// newProblem returns a problem document with only the status, its text and the path of r.
func newProblem(r *http.Request, status int) Problem {
	p := Problem{Type: typeBlank, Title: http.StatusText(status), Status: status}
	if len(r.URL.Path) <= maxInstance {
		if path := r.URL.EscapedPath(); len(path) <= maxInstance {
			p.Instance = path
		}
	}
	return p
}

// unknownRetry is the wait of a denial by places, which end by an event.
const unknownRetry = -1

// describe returns the text for the client about the rule of p, which denied. retry and closed are as in denialTexts, and
// end is that of endOf.
func (p *policy) describe(retry, end int64, closed bool) string {
	rule, l, unit := p.rule, p.rule.Limit(), p.unit
	b := append(append(make([]byte, 0, 128), "Policy "...), p.name...)
	b = append(b, " allows "...)
	if closed || l == core.Blocked {
		if b = append(append(b, "no "...), unit...); end == 0 {
			return string(append(b, '.'))
		}
		return string(appendRetry(appendTime(append(b, " until "...), end), retry))
	}
	n := l.Events
	if !rule.Kind().Refills { // a plan may leave a part of the limit
		n = rule.Capacity()
	}
	b = strconv.AppendInt(b, int64(n), 10)
	switch {
	case p.places:
		b = appendAtOnce(b, n, unit)
	case n != 1:
		b = append(append(append(b, ' '), unit...), " per "...)
		b = appendPeriod(b, l)
	case unit == "requests":
		b = appendPeriod(append(b, " request per "...), l)
	default: // a plural, whose singular is not known
		b = appendPeriod(append(b, " per "...), l)
		b = append(append(append(b, " ("...), unit...), ')')
	}
	if retry == unknownRetry {
		return string(append(b, '.'))
	}
	if burst := rule.Capacity(); burst != n {
		b = append(b, ", "...)
		b = strconv.AppendInt(b, int64(burst), 10)
		b = append(b, " at once"...)
	}
	if retry == 0 {
		return string(append(b, ". This request costs more than the policy ever allows."...))
	}
	if end != 0 { // a number of seconds above a day tells people nothing
		return string(append(appendTime(append(b, ". Retry after "...), end), '.'))
	}
	return string(appendRetry(b, retry))
}

func appendTime(b []byte, unix int64) []byte {
	return time.Unix(unix, 0).UTC().AppendFormat(b, time.RFC3339)
}

// appendAtOnce continues the text about a rule that admits n units at the same time.
func appendAtOnce(b []byte, n int, unit string) []byte {
	switch {
	case n != 1:
		b = append(append(append(b, ' '), unit...), " at the same time"...)
	case unit == "requests":
		b = append(b, " request at a time"...)
	default: // a plural, whose singular is not known
		b = append(append(append(b, " at a time ("...), unit...), ')')
	}
	return b
}

// appendRetry ends a sentence, and appends one about Retry-After.
func appendRetry(b []byte, retry int64) []byte {
	b = append(b, ". Retry in "...)
	b = strconv.AppendInt(b, retry, 10)
	return append(b, " s."...)
}

// appendPeriod writes the period of l in the largest of s, ms and µs that is at most the period, or the unit
// of the calendar.
func appendPeriod(b []byte, l core.Limit) []byte {
	if l.Calendar != 0 {
		return append(b, l.Calendar.String()...)
	}
	d, unit, name := l.Per, time.Microsecond, " µs"
	switch {
	case d >= time.Second:
		unit, name = time.Second, " s"
	case d >= time.Millisecond:
		unit, name = time.Millisecond, " ms"
	}
	b = strconv.AppendFloat(b, float64(d)/float64(unit), 'f', -1, 64)
	return append(b, name...)
}

// ErrDenied is the Err of the [Rejection] of a denied request.
var ErrDenied = errors.New("weir: over the limit")

// A Rejection describes a request whose handler does not run, because the request is over the
// limit, has no key or could not be decided. It is an error, so frameworks can collect it: ginlimit
// adds it to c.Errors. errors.Is finds [ErrDenied], or the reason why no decision could be made
// (keyfunc.ErrNoKey, core.ErrUnavailable). Its text is for logs; that of its Problem is fit for clients.
type Rejection struct {
	Problem  *Problem      // the body of the response
	Decision core.Decision // zero unless Denied
	// Err is ErrDenied, or the reason why no decision could be made. It is not for clients.
	Err error `json:"-"`
}

// Denied reports whether the request was over the limit. If not, no decision could be made.
func (r *Rejection) Denied() bool { return r.Err == ErrDenied }

// Error returns the status and the text of the Problem.
func (r *Rejection) Error() string { return fmt.Sprintf("weir: %d: %s", r.Problem.Status, r.Problem) }

// Unwrap returns Err.
func (r *Rejection) Unwrap() error { return r.Err }
