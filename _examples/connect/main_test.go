package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/examples/internal/demotest"
	"github.com/weir-go/weir/nethttplimit/client"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// An HTTP client gets 429 with a Retry-After, which package client reads.
func TestCalls(t *testing.T) {
	p := demotest.Start(t)
	call := func(fields ...string) *demotest.Answer {
		return p.Post(t, greet, `"Ann"`, append(fields, "Content-Type: application/json")...)
	}
	a := demotest.Exhaust(t, core.PerMinute(5), func() *demotest.Answer { return call() })
	if wait, ok := client.RetryAfter(&http.Response{Header: a.Header}); !ok || wait <= 0 || wait > 12*time.Second {
		t.Errorf("got the wait %v, %v, want 12 s or less", wait, ok)
	}
	call("X-User: mallory").WantStatus(t, 429)
	a = call("Authorization: Bearer key-of-ann")
	a.WantStatus(t, 200)
	if a.Body != `"Hello, Ann!"` {
		t.Errorf("got %s", a.Body)
	}
}

func TestHints(t *testing.T) {
	demotest.RunHints(t, demotest.Start(t), "HTTP/1.1 200 OK", "HTTP/1.1 429 ", "Retry-After: ", "resource_exhausted")
}
