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

// attempt signs in from address, without a server, and returns the status.
func attempt(h http.Handler, address, user, password string) int {
	form := url.Values{"user": {user}, "password": {password}}
	r := httptest.NewRequest("POST", "/login", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr = address + ":1234"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestLogin_SuccessIsRefunded(t *testing.T) {
	h := newHandler()
	for i := range 50 {
		if got := attempt(h, "192.0.2.1", " Alice ", "correct horse"); got != 200 {
			t.Fatalf("login %d: got status %d, want 200", i, got)
		}
	}
	for i := range 5 {
		if got := attempt(h, "192.0.2.1", "alice", "guess"); got != 401 {
			t.Fatalf("failure %d: got status %d, want 401", i, got)
		}
	}
	for name, got := range map[string]int{
		"the address and the user": attempt(h, "192.0.2.1", "alice", "correct horse"),
		"the user":                 attempt(h, "192.0.2.2", "ALICE", "correct horse"),
		"the address":              attempt(h, "192.0.2.1", "bob", "guess"),
	} {
		if got != 429 {
			t.Errorf("%s with five failures: got status %d, want 429", name, got)
		}
	}
	if got := attempt(h, "192.0.2.2", "bob", "guess"); got != 401 {
		t.Errorf("another user from another address: got status %d, want 401", got)
	}
	if got := attempt(h, "192.0.2.3", " ", "guess"); got != 400 {
		t.Errorf("no user name: got status %d, want 400", got)
	}
	if got := attempt(h, "192.0.2.3", strings.Repeat("x", 1<<16), "guess"); got != 400 {
		t.Errorf("a name of 64 KiB: got status %d, want 400", got)
	}
}

func TestLogin_ConcurrentGuesses(t *testing.T) {
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
		t.Errorf("%d guesses reached the handler, want 5", n)
	}
}

func TestHints(t *testing.T) {
	demotest.RunHints(t, demotest.Start(t), "200 200 200 200 200 200 200 200", "401 401 401 401 401 429 429", "HTTP/1.1 429 ")
}
