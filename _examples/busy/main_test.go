package main

import (
	"encoding/json"
	"testing"

	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// patient is a deadline that a busy machine meets too.
const patient = "REDIS_TIMEOUT=10s"

// Without REDIS_URL the example brings its own.
func TestHints(t *testing.T) {
	redistest.Require(t)
	p := demotest.Start(t, "REDIS_URL=", patient)
	demotest.RunHints(t, p, "1000 200", `"asked_redis":`, "20 200", "180 429", `"all";r=`)
}

// asked is how often p has asked Redis.
func asked(t *testing.T, p *demotest.Process) int {
	t.Helper()
	a := p.Do(t, "GET", "/stats")
	a.WantStatus(t, 200)
	var report struct {
		Asked *int `json:"asked_redis"`
	}
	if err := json.Unmarshal([]byte(a.Body), &report); err != nil || report.Asked == nil {
		t.Fatalf("%v: %s", err, a.Body)
	}
	return *report.Asked
}

func TestFewCalls(t *testing.T) {
	server := redistest.NewServer(t)
	env := []string{"REDIS_URL=redis://" + server.Addr + "/0", patient}
	one, two := demotest.Start(t, env...), demotest.Start(t, env...)
	for range 500 {
		one.Do(t, "GET", "/").WantStatus(t, 200)
		two.Do(t, "GET", "/").WantStatus(t, 200)
	}
	for _, p := range []*demotest.Process{one, two} {
		if n := asked(t, p); n > 250 {
			t.Errorf("%d calls for 500 requests", n)
		}
	}
	// A client over its own limit.
	for range 20 {
		one.Do(t, "GET", "/search").WantStatus(t, 200)
	}
	before := asked(t, one)
	for range 100 {
		one.Do(t, "GET", "/search").WantDenied(t, "each")
	}
	if n := asked(t, one) - before; n > 50 {
		t.Errorf("%d calls for 100 denials", n)
	}
}
