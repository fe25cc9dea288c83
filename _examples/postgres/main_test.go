package main

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// Without Postgres, the backup enforces the limit. The tests of core/pgstore have servers.
func TestLimit_WithoutPostgres(t *testing.T) {
	p := demotest.Start(t, "DATABASE_URL=postgres://127.0.0.1:1/none?connect_timeout=1")
	denied := demotest.Exhaust(t, core.Per(5, time.Minute), func() *demotest.Answer { return p.Do(t, "GET", "/") })
	denied.WantDenied(t, "api")
}
