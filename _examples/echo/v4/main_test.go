package main

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestHTTPErrorHandler(t *testing.T) {
	p := demotest.Start(t)
	demotest.Exhaust(t, core.PerMinute(20), func() *demotest.Answer { return p.Do(t, "GET", "/") }).WantDenied(t, "ip")
	demotest.Until(t, "the denial is logged", func() bool {
		return strings.Contains(p.Output(), `GET /: 429: Policy "ip" allows 20 requests per 60 s.`)
	})
	p.Do(t, "GET", "/other").WantField(t, "Content-Type", "application/problem+json") // denied, too
}

func TestHints(t *testing.T) {
	demotest.RunHints(t, demotest.Start(t), "HTTP/1.1 200 OK", "200 200 ", " 429 ")
}
