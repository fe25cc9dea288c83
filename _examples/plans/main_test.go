package main

import (
	"bytes"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

var frameworks = []string{"nethttp", "gin", "echo"}

// An api is the handler of the example.
type api struct{ http.Handler }

// get sends n requests of a customer and returns the response to the last one.
func (h api) get(customer string, n int) *httptest.ResponseRecorder {
	var w *httptest.ResponseRecorder
	for range n {
		w = httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-API-Key", "key-of-"+customer)
		h.ServeHTTP(w, r)
	}
	return w
}

// want fails the test unless the next request of the customer has this response.
func (h api) want(t *testing.T, customer string, status int, policy, limit string) {
	t.Helper()
	w := h.get(customer, 1)
	if w.Code != status || w.Header().Get("RateLimit-Policy") != policy || !strings.HasPrefix(w.Header().Get("RateLimit"), limit) {
		t.Errorf("%s: got %d, %s, %s, want %d, %s, %s", customer, w.Code, w.Header().Get("RateLimit-Policy"), w.Header().Get("RateLimit"), status, policy, limit)
	}
	if limit == "" && w.Header().Get("RateLimit") != "" {
		t.Errorf("%s: got RateLimit %s, want none", customer, w.Header().Get("RateLimit"))
	}
	if retries := w.Header().Get("Retry-After") != ""; retries != (status == 429 && policy != blocked) {
		t.Errorf("%s: got Retry-After %q with status %d", customer, w.Header().Get("Retry-After"), status)
	}
}

// put sends the form of an operator and returns the status.
func (h api) put(path, form string) int {
	r := httptest.NewRequest("PUT", path, strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

const (
	free    = `"api";q=10;w=60`
	pro     = `"api";q=100;w=60`
	blocked = `"api";q=0`
)

func TestPlans(t *testing.T) {
	for _, framework := range frameworks {
		t.Run(framework, func(t *testing.T) {
			h := api{newHandler(framework)}
			h.want(t, "ann", 200, free, `"api";r=9;`)
			h.want(t, "sue", 200, "", "")
			h.want(t, "eve", 429, blocked, `"api";r=0`)
			h.want(t, "mallory", 401, "", "")
			if w := h.get("sue", 200); w.Code != 200 || w.Body.String() != "allowed: \"api\" unlimited\n" {
				t.Errorf("sue: got %d, %s, want no limit", w.Code, w.Body)
			}

			h.get("ann", 9)
			h.want(t, "ann", 429, free, `"api";r=0;`)
			if got := h.put("/admin/customers/ann", "plan=pro"); got != 200 {
				t.Fatalf("got status %d", got)
			}
			h.want(t, "ann", 200, pro, `"api";r=89;`)
			h.put("/admin/customers/ann", "")
			h.want(t, "ann", 429, free, `"api";r=0;`)
			h.put("/admin/customers/ann", "plan=banned")
			h.want(t, "ann", 429, blocked, `"api";r=0`)
			h.want(t, "bob", 200, free, `"api";r=9;`)
		})
	}
}

func TestLimitsOfOneCustomer(t *testing.T) {
	var logged bytes.Buffer
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	log.SetOutput(&logged)
	for _, framework := range frameworks {
		t.Run(framework, func(t *testing.T) {
			h := api{newHandler(framework)}
			h.get("ann", 10)
			for _, c := range []struct{ form, policy, limit string }{
				{"plan=pro&limit=25/m", `"api";q=25;w=60`, `"api";r=14;`},
				{"limit=12/m", `"api";q=12;w=60`, `"api";r=0;`},
				{"limit=unlimited", "", ""},
				{"limit=3/h", `"api";q=3;w=3600`, `"api";r=2;`}, // another period has a counter of its own
				{"plan=pro", pro, `"api";r=87;`},
			} {
				if got := h.put("/admin/customers/ann", c.form); got != 200 {
					t.Fatalf("%s: got status %d", c.form, got)
				}
				h.want(t, "ann", 200, c.policy, c.limit)
			}
			for _, form := range []string{"limit=0/m", "limit=many", "limit=10/m+burst+20"} {
				if got := h.put("/admin/customers/ann", form); got != 400 {
					t.Errorf("%s: got status %d, want 400", form, got)
				}
			}
			if got := h.put("/admin/customers/nobody", "plan=pro"); got != 404 {
				t.Errorf("nobody: got status %d, want 404", got)
			}
			h.want(t, "ann", 200, pro, `"api";r=86;`)
		})
	}
	if logged.Len() > 0 {
		t.Errorf("logged: %s", &logged)
	}
}

func TestReplacedLimit(t *testing.T) {
	for _, framework := range frameworks {
		t.Run(framework, func(t *testing.T) {
			h := api{newHandler(framework)}
			h.put("/admin/customers/ann", "limit=50/m")
			h.get("ann", 1)
			h.get("bob", 10)
			h.want(t, "bob", 429, free, `"api";r=0;`)
			if got := h.put("/admin/limit", "limit=20/m"); got != 200 {
				t.Fatalf("got status %d", got)
			}
			h.want(t, "bob", 200, `"api";q=20;w=60`, `"api";r=9;`)
			h.want(t, "ann", 200, `"api";q=50;w=60`, `"api";r=48;`)
			h.want(t, "eve", 429, blocked, `"api";r=0`)
			if got := h.put("/admin/limit", "limit=20"); got != 400 {
				t.Errorf("an invalid limit: got status %d, want 400", got)
			}
			h.want(t, "bob", 200, `"api";q=20;w=60`, `"api";r=8;`)
		})
	}
}

func TestHints(t *testing.T) {
	for _, framework := range frameworks {
		t.Run(framework, func(t *testing.T) {
			demotest.RunHints(t, demotest.Start(t, "FRAMEWORK="+framework),
				"200 200 200 200 200 200 200 200 200 200 429 \n",
				"89 of 100 left", "238 of 250 left", "19 of 20 left", "unlimited", "allows no requests")
		})
	}
}
