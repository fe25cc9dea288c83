package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// send sends a request to h without a server, so that it works in a bubble.
func send(h http.Handler, method, target, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
	return w
}

func TestSoft(t *testing.T) {
	h := newHandler()
	for n := 1; n <= 13; n++ {
		w := send(h, "GET", "/soft", "")
		status, text := http.StatusOK, "within the limit"
		switch {
		case n > 12:
			status, text = http.StatusTooManyRequests, "Retry in"
		case n > 10:
			text = "slow down"
		}
		if w.Code != status || !strings.Contains(w.Body.String(), text) {
			t.Errorf("request %d: got status %d, %s; want %d and %q", n, w.Code, w.Body, status, text)
		}
	}
}

func TestElastic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler()
		quota := func() string {
			_, q, _ := strings.Cut(send(h, "GET", "/elastic", "").Header().Get("RateLimit-Policy"), "q=")
			q, _, _ = strings.Cut(q, ";")
			return q
		}
		if q := quota(); q != "20" {
			t.Errorf("idle: got the limit %s, want 20", q)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { send(h, "GET", "/slow", "") })
		}
		synctest.Wait()
		if q := quota(); q != "5" {
			t.Errorf("with 4 of 4 slow requests: got the limit %s, want 5", q)
		}
		wg.Wait()
		if q := quota(); q != "20" {
			t.Errorf("idle again: got the limit %s, want 20", q)
		}
	})
}

func TestLeaky(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler()
		start := time.Now()
		var mu sync.Mutex
		got := make(map[string]int)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				w := send(h, "GET", "/leaky", "")
				mu.Lock()
				defer mu.Unlock()
				got[fmt.Sprint(w.Code, " after ", time.Since(start))]++
			})
		}
		wg.Wait()
		for want, n := range map[string]int{"200 after 0s": 1, "200 after 500ms": 1, "200 after 1s": 1, "429 after 0s": 2} {
			if got[want] != n {
				t.Errorf("got %d answers %s, want %d: %v", got[want], want, n, got)
			}
		}
	})
}

func TestUpload(t *testing.T) {
	h := newHandler()
	half := strings.Repeat("x", 60<<10)
	for i, want := range []int{200, 429} {
		if w := send(h, "POST", "/upload", half); w.Code != want {
			t.Errorf("upload %d of 60 KiB: got status %d, want %d", i+1, w.Code, want)
		}
	}
	r := httptest.NewRequest("POST", "/upload", strings.NewReader("x"))
	r.ContentLength = -1
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 429 || w.Header().Get("Retry-After") != "" {
		t.Errorf("an upload without a length: got status %d, Retry-After %q; want 429 and no Retry-After", w.Code, w.Header().Get("Retry-After"))
	}
}

func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler()
		if w := send(h, "GET", "/chat?words=20", ""); w.Code != 200 {
			t.Fatalf("got status %d, want 200", w.Code)
		}
		// The first request is settled at 20; the second is charged 50, and settled at 3000 later.
		w := send(h, "GET", "/chat?words=3000", "")
		if w.Code != 200 || !strings.Contains(w.Header().Get("RateLimit"), "r=930") {
			t.Errorf("got status %d, RateLimit %s; want 200 and 1000 less 20 and 50", w.Code, w.Header().Get("RateLimit"))
		}
		w = send(h, "GET", "/chat", "")
		// 3020 + 50 - 1000 are refilled at 1000 a minute: 124.2 s.
		if w.Code != 429 || w.Header().Get("Retry-After") != "125" {
			t.Errorf("in debt: got status %d, Retry-After %q; want 429 and 125", w.Code, w.Header().Get("Retry-After"))
		}
		time.Sleep(125 * time.Second)
		if w := send(h, "GET", "/chat", ""); w.Code != 200 {
			t.Errorf("after the debt is repaid: got status %d, want 200", w.Code)
		}
	})
}

func TestHints(t *testing.T) {
	demotest.RunHints(t, demotest.Start(t), "slow down, please", "q=20", "q=5", "200 after ", "429 after ", "200 429", "Retry-After: ")
}

func TestPolicies(t *testing.T) {
	p := demotest.Start(t)
	a := p.Do(t, "GET", "/soft")
	a.WantField(t, "RateLimit-Policy", `"soft";q=10;w=60`)
	demotest.Exhaust(t, core.PerMinute(11), func() *demotest.Answer { return p.Do(t, "GET", "/soft") }).WantDenied(t, "soft")
}
