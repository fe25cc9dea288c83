package gatetest

import (
	"cmp"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/apptest"
	"github.com/weir-go/weir/keyfunc"
)

// Texts of problem documents.
const (
	retry12      = `Policy \"hundred\" allows 100 requests per 3600 s. Retry in 12 s.`
	retryText    = `Policy "hundred" allows 100 requests per 3600 s. Retry in 12 s.`
	unidentified = "The request does not say who sent it."
)

// Problem documents of requests to /v1/orders.
var (
	overLimit = apptest.Problem(429, "", retry12, `"hundred"`)
	undecided = apptest.Problem(503, "", "Retry in 1 s.", "")
	emptyKey  = apptest.Problem(400, "Bad Request", "The value that is limited is missing.", "")
	badKey    = apptest.Problem(400, "Bad Request", unidentified, "")
	noToken   = apptest.Problem(401, "Unauthorized", "Sign-in is required.", "")
	fault     = apptest.Problem(500, "Internal Server Error", "", "")
)

// testAnswers checks the responses to requests that are admitted, denied and rejected: the status, the
// header fields, and the problem document in JSON, as text and of HEAD.
func (s *suite) testAnswers(t *testing.T) {
	over := states{"hundred": denied(12 * time.Second)}
	within := states{"hundred": allowed(7, time.Minute, 0)}
	const policy, sevenLeft, nothingLeft = `"hundred";q=100;w=3600`, `"hundred";r=7;t=60`, `"hundred";r=0;t=12`
	forbidden := gate.DeniedStatus(func(core.Decision) int { return http.StatusForbidden })
	for _, c := range []struct {
		name string
		setup
		status       int
		policy       string
		limit, retry string
		body         string // the document
		text         string // the document as text
	}{
		{"admitted", setup{States: within}, 200, policy, sevenLeft, "", "", ""},
		{"denied", setup{States: over}, 429, policy, nothingLeft, "12", overLimit, retryText},
		{
			"denied, another status", setup{States: over, Opts: []gate.Option{forbidden}}, 403, policy, nothingLeft, "12",
			apptest.Problem(403, "Forbidden", retry12, `"hundred"`), retryText,
		},
		{"denied, without fields", setup{States: over, Opts: []gate.Option{gate.Headers()}}, 429, "", "", "12", overLimit, retryText},
		{"no key", setup{Key: noKey(keyfunc.ErrNoKey)}, 400, "", "", "", badKey, unidentified},
		{"no token", setup{Key: noKey(keyfunc.ErrNoToken)}, 401, "", "", "", noToken, "Sign-in is required."},
		{"no token, beside an address", setup{States: within, And: noKey(keyfunc.ErrNoToken)}, 401, policy, sevenLeft, "", noToken, "Sign-in is required."},
		{"fault of a key function", setup{Key: noKey(errSecret), Opts: []gate.Option{quiet}}, 500, "", "", "", fault, "Internal Server Error"},
		{"undecided", setup{Err: errSecret, Opts: []gate.Option{quiet}}, 200, "", "", "", "", ""},
		{"undecided, FailClosed", setup{Err: errSecret, Opts: []gate.Option{quiet, gate.FailClosed()}}, 503, "", "", "1", undecided, "Retry in 1 s."},
		{"skipped", setup{Key: noKey(keyfunc.ErrNoKey), Opts: []gate.Option{apptest.Skipped}}, 200, "", "", "", "", ""},
	} {
		for variant, accept := range map[string]string{
			"GET": "", "GET of JSON": "application/json, text/plain", "GET of text": "Text/Plain;q=0.9, application/json", "HEAD": "", "HEAD of text": "text/html",
		} {
			t.Run(c.name+"/"+variant, func(t *testing.T) {
				a := s.start(c.setup)
				method, _, _ := strings.Cut(variant, " ")
				r := request(method, "/v1/orders?token=secret")
				if accept != "" {
					r.Header.Set("Accept", accept)
				}
				body := cmp.Or(c.body, "ok\n")
				asText := s.errorHandler == "" && c.body != "" && (variant == "GET of text" || variant == "HEAD of text")
				if asText {
					body = c.text + "\n"
				}
				replies := []reply{exchange(t, a, r)}
				if r.Method == http.MethodHead {
					body = ""
					if c.body != "" {
						replies = append(replies, record(t, a, r)) // a server would drop a body
					}
				}
				for _, got := range replies {
					if got.Status != c.status || got.Body != body {
						t.Errorf("got %d %s\n\twant %d %s", got.Status, got.Body, c.status, body)
					}
					s.checkFields(t, got, map[string]string{"RateLimit-Policy": c.policy, "RateLimit": c.limit, "Retry-After": c.retry})
					if c.body != "" {
						s.checkProblem(t, got, r.Method, asText)
					}
				}
				a.CheckRan(t, map[bool]int{true: 1}[c.body == ""])
			})
		}
	}
	t.Run("exposed", func(t *testing.T) {
		for status, states := range map[int]states{200: within, 429: over} {
			got := exchange(t, s.start(setup{States: states, Opts: []gate.Option{gate.ExposeHeaders(), gate.Headers(gate.XRateLimit)}}), request("GET", "/"))
			s.checkFields(t, got, map[string]string{
				"Access-Control-Expose-Headers": "Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset", "X-RateLimit-Limit": "100",
			})
			if got.Status != status {
				t.Errorf("the status is %d, want %d", got.Status, status)
			}
		}
	})
}

// checkFields compares header fields, each of one line. An empty value means none.
func (s *suite) checkFields(t *testing.T, got reply, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if lines := got.Header.Values(name); len(lines) > 1 || got.Header.Get(name) != value {
			t.Errorf("%s is %q, want %q", name, lines, value)
		}
	}
}

// checkProblem compares the header fields of a problem document.
func (s *suite) checkProblem(t *testing.T, got reply, method string, asText bool) {
	t.Helper()
	want := map[string]string{
		"Content-Type": cmp.Or(s.errorHandler, gate.ProblemMediaType), "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "WWW-Authenticate": "",
	}
	if asText {
		want["Content-Type"] = "text/plain; charset=utf-8"
	}
	if s.errorHandler != "" && method == http.MethodHead {
		delete(want, "Content-Type")
	}
	if got.Status == http.StatusUnauthorized {
		want["WWW-Authenticate"] = "Bearer"
	}
	s.checkFields(t, got, want)
}
