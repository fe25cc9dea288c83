package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// attempt signs in without a server, from an address of its own choice.
func attempt(h http.Handler, address, user, password string) int {
	form := url.Values{"user": {user}, "password": {password}}
	r := httptest.NewRequest("POST", "/login", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr = address + ":1234"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestOnlyFailuresCount(t *testing.T) {
	h := newHandler()
	for i := range 50 {
		if got := attempt(h, "192.0.2.1", " Alice ", "correct horse"); got != 200 {
			t.Fatalf("sign-in %d: %d", i, got)
		}
	}
	for i := range 5 {
		if got := attempt(h, "192.0.2.1", "alice", "guess"); got != 401 {
			t.Fatalf("failure %d: %d", i, got)
		}
	}
	for what, got := range map[string]int{
		"the address and the user": attempt(h, "192.0.2.1", "alice", "correct horse"),
		"the user":                 attempt(h, "192.0.2.2", "ALICE", "correct horse"),
		"the address":              attempt(h, "192.0.2.1", "bob", "guess"),
	} {
		if got != 429 {
			t.Errorf("%s had five failures, and gets %d", what, got)
		}
	}
	if got := attempt(h, "192.0.2.2", "bob", "guess"); got != 401 {
		t.Errorf("another user from another address gets %d", got)
	}
	if got := attempt(h, "192.0.2.3", " ", "guess"); got != 400 {
		t.Errorf("nobody gets %d", got)
	}
	if got := attempt(h, "192.0.2.3", strings.Repeat("x", 5000), "guess"); got != 400 {
		t.Errorf("a name of 5000 bytes gets %d", got)
	}
}

func TestParallelGuesses(t *testing.T) {
	h := newHandler()
	var wg sync.WaitGroup
	var guesses atomic.Int64
	for range 500 {
		wg.Go(func() {
			if attempt(h, "192.0.2.1", "alice", "guess") == 401 {
				guesses.Add(1)
			}
		})
	}
	wg.Wait()
	if n := guesses.Load(); n != 5 {
		t.Errorf("%d guesses were looked at, want 5", n)
	}
}

func TestHints(t *testing.T) {
	demotest.RunHints(t, demotest.Start(t), "200 200 200 200 200 200 200 200", "401 401 401 401 401 429 429", "HTTP/1.1 429 ")
}
