package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/examples/internal/demotest"
)

const token = "a secret of 16 bytes or more"

func TestMain(m *testing.M) {
	if err := os.Setenv("ADMIN_TOKEN", token); err != nil { // also for the commands that the example prints
		panic(err)
	}
	demotest.Main(m, main)
}

func TestAdmin(t *testing.T) {
	p := demotest.Start(t)
	ann := "Authorization: Basic YW5uOg==" // ann:
	operator := "Authorization: Bearer " + token
	const path = "/admin/limits/ann"
	for range 3 {
		p.Do(t, "GET", "/", ann).WantStatus(t, 200)
	}
	p.Do(t, "GET", "/", ann).WantDenied(t, "api")
	for _, c := range []struct {
		method, path, field string
		status              int
		body                string // its beginning
		next                int    // the status of the next request of ann, or 0
	}{
		{"GET", path, operator, 200, "denied, retry after ", 429},
		{"GET", path, ann, 401, "operators only", 0},
		{"DELETE", path, "Authorization: Bearer ", 401, "operators only", 0},
		{"DELETE", path, operator + "x", 401, "operators only", 429},
		{"DELETE", "/admin/limits/bob", operator, 200, `allowed: "api" 3 of 3 left`, 429},
		{"POST", path + "?n=-1", operator, 400, "weir: negative cost: -1", 429},
		{"POST", path + "?n=all", operator, 400, "n is not a number", 429},
		{"PUT", path, operator, 405, "Method Not Allowed", 0},
		{"POST", path + "?n=1", operator, 200, `allowed: "api" 1 of 3 left`, 200},
		{"GET", path, operator, 200, `denied, retry after `, 429},
		{"DELETE", path, operator, 200, `allowed: "api" 3 of 3 left`, 200},
	} {
		a := p.Do(t, c.method, c.path, c.field)
		a.WantStatus(t, c.status)
		if len(a.Body) < len(c.body) || a.Body[:len(c.body)] != c.body {
			t.Errorf("%s: got %q, want %q", a.Request, a.Body, c.body)
		}
		if c.next != 0 {
			p.Do(t, "GET", "/", ann).WantStatus(t, c.next)
		}
	}
}

// An outage of the store is no fault of the operator, who does not get the text of the error.
func TestAdmin_Outage(t *testing.T) {
	store := new(storetest.Fake).Set(storetest.Fail(fmt.Errorf("%w: dial redis-7.internal", core.ErrUnavailable)))
	for _, method := range []string{"GET", "DELETE", "POST"} {
		r := httptest.NewRequest(method, "/admin/limits/ann?n=1", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		newHandler(token, store).ServeHTTP(w, r)
		if got := w.Body.String(); w.Code != 503 || got != "try again\n" {
			t.Errorf("%s: got %d, %q, want 503", method, w.Code, got)
		}
	}
}

func TestHints(t *testing.T) {
	demotest.RunHints(t, demotest.Start(t), "200 200 200 429", "denied, retry after", "1 of 3 left", "3 of 3 left", "operators only")
}
