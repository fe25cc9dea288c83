package main

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestAPI(t *testing.T) { demotest.API(t) }

func TestHTTPErrorHandler(t *testing.T) {
	p := demotest.Start(t)
	denied := demotest.Exhaust(t, core.PerMinute(2), func() *demotest.Answer {
		return p.Do(t, "GET", "/report", "X-API-Key: key-of-alice")
	})
	denied.WantDenied(t, "report")
	demotest.Until(t, "the denial is logged", func() bool {
		return strings.Contains(p.Output(), `GET /report: 429: Policy "report" allows 2 requests per 60 s.`)
	})

	other := p.Do(t, "GET", "/report")
	other.WantStatus(t, 401)
	other.WantField(t, "Content-Type", "application/json")
}
