package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// longTimeout is a deadline that is met on a busy machine, too.
const longTimeout = "REDIS_TIMEOUT=10s"

// Without REDIS_CLUSTER the example starts its own Cluster.
func TestHints(t *testing.T) {
	redistest.Require(t)
	p := demotest.Start(t, "REDIS_CLUSTER=", longTimeout)
	demotest.RunHints(t, p, strings.Repeat("200 ", 10)+"429 429", `"minute";r=9;t=54, "hour";r=499;t=3600, "application";r=999;t=1`,
		`"minute";r=8;t=`, "has ")
}

func TestLimit_SharedByInstances(t *testing.T) {
	cluster := redistest.NewCluster(t)
	nodes := "REDIS_CLUSTER=" + strings.Join(cluster.Addrs()[:2], ",")
	one, two := demotest.Start(t, nodes, longTimeout), demotest.Start(t, nodes, longTimeout)
	get := func(p *demotest.Process, user string) *demotest.Answer { return p.Do(t, "GET", "/", "X-User: "+user) }

	if a := get(one, "alice"); a.Remaining(t, "minute") != 9 || a.Remaining(t, "hour") != 499 {
		t.Errorf("got RateLimit %q, want r=9 and r=499", a.Header.Get("RateLimit"))
	}
	a := get(two, "alice")
	a.WantStatus(t, 200)
	if r := a.Remaining(t, "hour"); r != 498 {
		t.Errorf("the second instance, after two requests: got Remaining %d, want 498", r)
	}
	one.Do(t, "GET", "/").WantStatus(t, 400)

	for i := range 60 {
		get(one, strings.Repeat("x", i+1)).WantStatus(t, 200)
	}
	report := two.Do(t, "GET", "/masters").Body
	if n := len(regexp.MustCompile(`has [1-9]\d* keys`).FindAllString(report, -1)); n != 3 {
		t.Errorf("60 users are spread over %d masters, want 3:\n%s", n, report)
	}
}
