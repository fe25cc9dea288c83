package gate

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/weir-go/weir/core"
)

// ErrDenied is the Err of the [Rejection] of a denied request.
var ErrDenied = errors.New("weir: over the limit")

// A Rejection describes a request whose handler does not run, because the request is over the
// limit, has no key or could not be decided. It is an error, so frameworks can collect it: ginlimit
// adds it to c.Errors. errors.Is finds [ErrDenied], or the reason why no decision could be made
// (keyfunc.ErrNoKey, core.ErrUnavailable). Its text is that of the [Problem] and fit for clients.
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

// ProblemMediaType is the media type of a [Problem] in JSON.
const ProblemMediaType = "application/problem+json"

// Problem types of draft-ietf-httpapi-ratelimit-headers-11 section 5, and about:blank (RFC 9457
// section 4.2.1), which adds nothing to the status.
const (
	TypeQuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	TypeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	TypeBlank           = "about:blank"
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
