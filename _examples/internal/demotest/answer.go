package demotest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

// An Answer is the response to a request.
type Answer struct {
	Request string // method and path
	Status  int
	Header  http.Header
	Body    string
}

// WantStatus fails the test unless the status of a is status.
func (a *Answer) WantStatus(t testing.TB, status int) {
	t.Helper()
	if a.Status != status {
		t.Fatalf("%s: got status %d, want %d: %s", a.Request, a.Status, status, a.Body)
	}
}

// WantField fails the test unless the header field name has the value; "" means that
// there is no such field.
func (a *Answer) WantField(t testing.TB, name, value string) {
	t.Helper()
	if got := a.Header.Values(name); value == "" && len(got) != 0 || value != "" && !slices.Equal(got, []string{value}) {
		t.Errorf("%s: got %s %q, want %q", a.Request, name, got, value)
	}
}

// Remaining returns r, the remaining events of rule, from the RateLimit field.
func (a *Answer) Remaining(t testing.TB, rule string) int {
	t.Helper()
	r, _ := a.rateLimit(t, rule)
	return r
}

// rateLimit returns r and t of rule from the RateLimit field.
func (a *Answer) rateLimit(t testing.TB, rule string) (remaining, seconds int) {
	t.Helper()
	field := a.Header.Get("RateLimit")
	m := regexp.MustCompile(fmt.Sprintf(`(?:^|, )"%s";r=(\d+);t=(\d+)(?:$|, )`, rule)).FindStringSubmatch(field)
	if m == nil {
		t.Fatalf("%s: got RateLimit %q, want a member %q", a.Request, field, rule)
	}
	remaining, _ = strconv.Atoi(m[1])
	seconds, _ = strconv.Atoi(m[2])
	return remaining, seconds
}

// WantDenied fails the test unless a is the default 429 answer for exactly these
// rules, with a Retry-After of 1 to 3600 seconds that is not before the time in the
// RateLimit field.
func (a *Answer) WantDenied(t testing.TB, rules ...string) {
	t.Helper()
	a.WantStatus(t, http.StatusTooManyRequests)
	retry := a.RetryAfter(t)
	for _, rule := range rules {
		if r, at := a.rateLimit(t, rule); r != 0 || at > retry {
			t.Errorf("%s: %q: got r=%d and t=%d, want r=0 and t at most %d, the Retry-After", a.Request, rule, r, at, retry)
		}
	}
	a.WantProblem(t, http.StatusTooManyRequests, "https://iana.org/assignments/http-problem-types#quota-exceeded", rules...)
}

// RetryAfter returns the value of the Retry-After field, from 1 to 3600.
func (a *Answer) RetryAfter(t testing.TB) int {
	t.Helper()
	n, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if err != nil || n < 1 || n > 3600 {
		t.Errorf("%s: got Retry-After %q, want 1 to 3600", a.Request, a.Header.Values("Retry-After"))
	}
	return n
}

// WantProblem fails the test unless a is a problem document of the status and the
// type kind, which names the violated rules.
func (a *Answer) WantProblem(t testing.TB, status int, kind string, rules ...string) {
	t.Helper()
	a.WantStatus(t, status)
	a.WantField(t, "Content-Type", "application/problem+json")
	a.WantField(t, "Cache-Control", "no-store")
	var doc struct {
		Type, Title, Detail string
		Status              int
		Violated            []string `json:"violated-policies"`
	}
	if err := json.Unmarshal([]byte(a.Body), &doc); err != nil {
		t.Fatalf("%s: %v in %q", a.Request, err, a.Body)
	}
	if doc.Type != kind || doc.Status != status || doc.Title == "" || doc.Detail == "" {
		t.Errorf("%s: got wrong type, status, title or detail: %s", a.Request, a.Body)
	}
	if !slices.Equal(doc.Violated, rules) {
		t.Errorf("%s: got violated-policies %q, want %q", a.Request, doc.Violated, rules)
	}
}

// Exhaust sends requests with do until one is denied, and returns its answer. The key
// must be unused at the start. As many requests must succeed before the denial as l
// allows, and at most as many more as were refilled meanwhile.
func Exhaust(t testing.TB, l core.Limit, do func() *Answer) *Answer {
	t.Helper()
	start := time.Now()
	for n := 0; ; n++ {
		a := do()
		most := l.Events + int(time.Since(start)/(l.Per/time.Duration(l.Events)))
		switch {
		case a.Status == http.StatusTooManyRequests && n >= l.Events:
			return a
		case a.Status != http.StatusOK:
			t.Fatalf("%s: got status %d after %d requests, want 200 for %d: %s", a.Request, a.Status, n, l.Events, a.Body)
		case n >= most:
			t.Fatalf("%s: %d requests succeeded, want %d (at most %d by now)", a.Request, n+1, l.Events, most)
		}
	}
}
