package main

import (
	"runtime"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestPage(t *testing.T) {
	p := demotest.Start(t)
	first := true
	denied := demotest.Exhaust(t, core.PerMinute(10), func() *demotest.Answer {
		a := p.Do(t, "GET", "/")
		a.WantField(t, "RateLimit-Policy", `"page";q=10;w=60`)
		if first {
			first = false
			a.WantField(t, "RateLimit", `"page";r=9;t=54`)
			a.WantField(t, "Retry-After", "")
		}
		return a
	})
	denied.WantDenied(t, "page")

	p.Do(t, "POST", "/login").WantStatus(t, 200)
	p.Do(t, "GET", "/", "X-Forwarded-For: 203.0.113.7").WantDenied(t, "page")
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: only Linux has several loopback addresses by default")
	}
	a := p.DoFrom(t, "127.0.0.2", "GET", "/")
	a.WantStatus(t, 200)
	if r := a.Remaining(t, "page"); r != 9 {
		t.Errorf("another address: got Remaining %d, want 9", r)
	}
}

func TestLogin(t *testing.T) {
	p := demotest.Start(t)
	denied := demotest.Exhaust(t, core.PerMinute(3), func() *demotest.Answer { return p.Do(t, "POST", "/login") })
	denied.WantField(t, "RateLimit-Policy", `"login";q=3;w=60`)
	denied.WantDenied(t, "login")
	p.Do(t, "GET", "/").WantStatus(t, 200)
}

func TestHints(t *testing.T) {
	demotest.RunHints(t, demotest.Start(t), "HTTP/1.1 200 OK", "200 200 ", "HTTP/1.1 429 ")
}
