package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// patient is a deadline that a busy machine meets too.
const patient = "REDIS_TIMEOUT=10s"

// Without REDIS_CLUSTER the example brings its own.
func TestHints(t *testing.T) {
	redistest.Require(t)
	p := demotest.Start(t, "REDIS_CLUSTER=", patient)
	demotest.RunHints(t, p, strings.Repeat("200 ", 10)+"429 429", `"minute";r=9;t=54, "hour";r=499;t=3600, "application";r=999;t=1`,
		`"minute";r=8;t=`, "has ")
}

func TestClusterIsShared(t *testing.T) {
	cluster := redistest.NewCluster(t)
	nodes := "REDIS_CLUSTER=" + strings.Join(cluster.Addrs()[:2], ",")
	one, two := demotest.Start(t, nodes, patient), demotest.Start(t, nodes, patient)
	ask := func(p *demotest.Process, user string) *demotest.Answer { return p.Do(t, "GET", "/", "X-User: "+user) }

	if a := ask(one, "alice"); a.Remaining(t, "minute") != 9 || a.Remaining(t, "hour") != 499 {
		t.Errorf("RateLimit is %q", a.Header.Get("RateLimit"))
	}
	a := ask(two, "alice")
	a.WantStatus(t, 200)
	if r := a.Remaining(t, "hour"); r != 498 {
		t.Errorf("the second instance has %d of 500 left after two requests, want 498", r)
	}
	one.Do(t, "GET", "/").WantStatus(t, 400)

	for i := range 60 {
		ask(one, strings.Repeat("x", i+1)).WantStatus(t, 200)
	}
	report := two.Do(t, "GET", "/masters").Body
	if n := len(regexp.MustCompile(`has [1-9]\d* keys`).FindAllString(report, -1)); n != 3 {
		t.Errorf("60 users are on %d masters, want 3:\n%s", n, report)
	}
}
