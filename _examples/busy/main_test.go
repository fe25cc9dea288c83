package main

import (
	"encoding/json"
	"testing"

	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// longTimeout is a deadline that is met on a busy machine, too.
const longTimeout = "REDIS_TIMEOUT=10s"

// Without REDIS_URL the example starts its own Redis.
func TestHints(t *testing.T) {
	redistest.Require(t)
	p := demotest.Start(t, "REDIS_URL=", longTimeout)
	demotest.RunHints(t, p, "1000 200", `"calls_of_redis":`, "20 200", "180 429", `"all";r=`)
}

// calls returns the number of calls of Redis that p has made.
func calls(t *testing.T, p *demotest.Process) int {
	t.Helper()
	a := p.Do(t, "GET", "/stats")
	a.WantStatus(t, 200)
	var report struct {
		Calls *int `json:"calls_of_redis"`
	}
	if err := json.Unmarshal([]byte(a.Body), &report); err != nil || report.Calls == nil {
		t.Fatalf("%v: %s", err, a.Body)
	}
	return *report.Calls
}

func TestStats_CallsOfRedis(t *testing.T) {
	server := redistest.NewServer(t)
	env := []string{"REDIS_URL=redis://" + server.Addr + "/0", longTimeout}
	one, two := demotest.Start(t, env...), demotest.Start(t, env...)
	for range 500 {
		one.Do(t, "GET", "/").WantStatus(t, 200)
		two.Do(t, "GET", "/").WantStatus(t, 200)
	}
	for _, p := range []*demotest.Process{one, two} {
		if n := calls(t, p); n > 250 {
			t.Errorf("got %d calls of Redis for 500 requests, want at most 250", n)
		}
	}
	// A client over its own limit.
	for range 20 {
		one.Do(t, "GET", "/search").WantStatus(t, 200)
	}
	before := calls(t, one)
	for range 100 {
		one.Do(t, "GET", "/search").WantDenied(t, "each")
	}
	if n := calls(t, one) - before; n > 50 {
		t.Errorf("got %d calls of Redis for 100 denials, want at most 50", n)
	}
}
