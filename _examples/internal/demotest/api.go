package demotest

import (
	"encoding/json"
	"testing"

	"github.com/weir-go/weir/core"
)

const apiPolicy = `"api";q=20;w=60`

// API tests the examples gin and echo, which are the same application in two
// frameworks.
func API(t *testing.T) {
	t.Run("whole API", func(t *testing.T) {
		p := Start(t)
		a := p.Do(t, "GET", "/")
		a.WantStatus(t, 200)
		a.WantField(t, "RateLimit-Policy", apiPolicy)
		a.WantField(t, "X-RateLimit-Limit", "20")
		a.WantField(t, "X-RateLimit-Remaining", "19")
		a.WantField(t, "Access-Control-Expose-Headers",
			"RateLimit, RateLimit-Policy, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset")
		var doc struct{ Remaining int }
		if err := json.Unmarshal([]byte(a.Body), &doc); err != nil || doc.Remaining != 19 || a.Remaining(t, "api") != 19 {
			t.Errorf("the decision in the handler differs from RateLimit: %v, %s, %q", err, a.Body, a.Header.Get("RateLimit"))
		}

		p = Start(t)
		Exhaust(t, core.PerMinute(20), func() *Answer { return p.Do(t, "GET", "/") }).WantDenied(t, "api")
		p.Do(t, "POST", "/login").WantDenied(t, "api")

		a = p.Do(t, "GET", "/healthz")
		a.WantStatus(t, 204)
		a.WantField(t, "RateLimit", "")
	})

	t.Run("login", func(t *testing.T) {
		p := Start(t)
		a := Exhaust(t, core.PerMinute(3), func() *Answer { return p.Do(t, "POST", "/login") })
		a.WantField(t, "RateLimit-Policy", apiPolicy+`, "login";q=3;w=60`)
		a.WantField(t, "X-RateLimit-Limit", "3")
		a.WantField(t, "X-RateLimit-Remaining", "0")
		var doc struct {
			Error string
			Retry int `json:"retry_seconds"`
		}
		if err := json.Unmarshal([]byte(a.Body), &doc); err != nil || doc.Error != "too many attempts to sign in" || doc.Retry != a.RetryAfter(t) {
			t.Errorf("got %v, %s; want the answer of tooManyLogins", err, a.Body)
		}
		p.Do(t, "GET", "/").WantStatus(t, 200)
	})

	t.Run("reports", func(t *testing.T) {
		p := Start(t)
		report := func(user string) *Answer { return p.Do(t, "GET", "/report", "X-API-Key: key-of-"+user) }
		a := Exhaust(t, core.PerMinute(2), func() *Answer { return report("alice") })
		a.WantDenied(t, "report")
		a.WantField(t, "RateLimit-Policy", apiPolicy+`, "report";q=2;w=60`)
		a.WantField(t, "X-RateLimit-Remaining", "0")

		a = report("bob")
		a.WantStatus(t, 200)
		if r := a.Remaining(t, "report"); r != 1 {
			t.Errorf("bob: got Remaining %d, want 1", r)
		}
		a = report("mallory")
		a.WantStatus(t, 401)
		a.WantField(t, "RateLimit-Policy", apiPolicy)
	})

	t.Run("hints", func(t *testing.T) {
		RunHints(t, Start(t), "HTTP/1.1 200 OK", "too many attempts", "429 ", "HTTP/1.1 204")
	})
}
