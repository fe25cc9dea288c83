package gate

import (
	"cmp"
	"strconv"
)

// ProblemMediaType is the media type of a [Problem] in JSON.
const ProblemMediaType = "application/problem+json"

// Problem types of draft-ietf-httpapi-ratelimit-headers-11 section 5, and about:blank (RFC 9457
// section 4.2.1), which adds nothing to the status.
const (
	TypeQuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	TypeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	TypeBlank           = "about:blank"
)

// A Problem is the document that a client gets instead of the handler's answer (RFC 9457):
//
//	{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",
//	 "title":"Request cannot be satisfied as assigned quota has been exceeded",
//	 "status":429,"detail":"Policy \"burst\" allows 100 requests per 60 s. Retry in 12 s.",
//	 "instance":"/v1/orders","violated-policies":["burst"]}
//
// A Problem is fit for clients: it holds no key, no address and no text of an error.
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
