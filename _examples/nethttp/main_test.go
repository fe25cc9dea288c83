package main

import (
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

const outer = `"client";q=20;w=60, "everyone";q=1000;w=1`

func TestWholeAPI(t *testing.T) {
	p := demotest.Start(t)
	denied := demotest.Exhaust(t, core.PerMinute(20), func() *demotest.Answer {
		a := p.Do(t, "GET", "/items")
		a.WantField(t, "RateLimit-Policy", outer)
		return a
	})
	denied.WantDenied(t, "client")

	other := p.Do(t, "GET", "/items", "X-Forwarded-For: 203.0.113.7")
	other.WantStatus(t, 200)
	if r := other.Remaining(t, "client"); r != 19 {
		t.Errorf("another client: got Remaining %d, want 19", r)
	}

	health := p.Do(t, "GET", "/healthz")
	health.WantStatus(t, 200)
	health.WantField(t, "RateLimit", "")
}

func TestWrite(t *testing.T) {
	p := demotest.Start(t)
	denied := demotest.Exhaust(t, core.PerMinute(3), func() *demotest.Answer { return p.Do(t, "POST", "/items") })
	denied.WantField(t, "RateLimit-Policy", outer+`, "write";q=3;w=60`)
	denied.WantDenied(t, "write")
	p.Do(t, "POST", "/items", "X-Forwarded-For: 203.0.113.7").WantStatus(t, 200)
	p.Do(t, "GET", "/items").WantStatus(t, 200)
}

func TestSearch_Cost(t *testing.T) {
	p := demotest.Start(t)
	search := func(query string) *demotest.Answer { return p.Do(t, "GET", "/search"+query) }
	a := search("?pages=6")
	a.WantStatus(t, 200)
	a.WantField(t, "RateLimit-Policy", outer+`, "search";q=10;w=60`)
	if r := a.Remaining(t, "search"); r != 4 {
		t.Errorf("after 6 of 10 pages: got Remaining %d, want 4", r)
	}
	a = search("?pages=6")
	a.WantStatus(t, 429)
	a.RetryAfter(t)
	a = search("?pages=11")
	a.WantStatus(t, 429)
	a.WantField(t, "Retry-After", "")

	before := search("").Remaining(t, "search")
	for _, query := range []string{"?pages=-5", "?pages=0", "?pages=x"} {
		a := search(query)
		a.WantStatus(t, 200)
		if r := a.Remaining(t, "search"); r > before {
			t.Errorf("%s: got Remaining %d, want at most %d, the value before", query, r, before)
		}
	}
}

func TestHints(t *testing.T) {
	demotest.RunHints(t, demotest.Start(t), "HTTP/1.1 200 OK", "200 200 200 429", "HTTP/1.1 429 ", "more than the policy ever allows")
}
