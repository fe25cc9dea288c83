package main

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// start runs the example on redis, with a deadline that is met on a busy machine, too.
func start(t *testing.T, redis *redistest.Server) *demotest.Process {
	t.Helper()
	return demotest.Start(t, "REDIS_URL=redis://"+redis.Addr+"/0", "REDIS_TIMEOUT=10s")
}

const policy = `"minute";q=10;w=60, "hour";q=500;w=3600`

func TestLimit_SharedByInstances(t *testing.T) {
	redis := redistest.NewServer(t)
	one := start(t, redis)
	two := start(t, redis)

	a := one.Do(t, "GET", "/")
	a.WantStatus(t, 200)
	a.WantField(t, "RateLimit-Policy", policy)
	a.WantField(t, "RateLimit", `"minute";r=9;t=54, "hour";r=499;t=3600`)
	if r := two.Do(t, "GET", "/").Remaining(t, "hour"); r != 498 {
		t.Errorf("the second instance, after two requests: got Remaining %d, want 498", r)
	}

	sent := 2
	login := demotest.Exhaust(t, core.Per(5, 15*time.Minute), func() *demotest.Answer {
		sent++
		if sent%2 == 0 {
			return one.Do(t, "POST", "/login")
		}
		return two.Do(t, "POST", "/login")
	})
	login.WantDenied(t, "login")
	login.WantField(t, "RateLimit-Policy", `"login";q=5;w=900, `+policy)
	if r := login.Remaining(t, "hour"); r != 500-7 {
		t.Errorf("after 7 requests and a denial: got Remaining %d, want 493", r)
	}

	// 3 of 10 are left, and one is refilled every 6 s.
	denied := demotest.Exhaust(t, core.Per(3, 18*time.Second), func() *demotest.Answer { return one.Do(t, "GET", "/") })
	denied.WantDenied(t, "minute")
	if !strings.Contains(one.Output(), "Redis at "+redis.Addr+" answers.") {
		t.Errorf("the example does not print that Redis answers: %s", one.Output())
	}
}

func TestRedis_StoppedAndStarted(t *testing.T) {
	redis := redistest.NewServer(t)
	p := start(t, redis)
	demotest.Exhaust(t, core.PerMinute(10), func() *demotest.Answer { return p.Do(t, "GET", "/") }).WantDenied(t, "minute")

	demotest.Must(t, redis.Stop())
	wantOutage(t, p)

	demotest.Must(t, redis.Start()) // empty
	wantLimits(t, p)
}

func TestRedis_AbsentAtStart(t *testing.T) {
	redis := redistest.NewServer(t)
	demotest.Must(t, redis.Stop())
	p := start(t, redis)
	if !strings.Contains(p.Output(), "Redis at "+redis.Addr+" does not answer") {
		t.Errorf("the example does not print that Redis is absent: %s", p.Output())
	}
	wantOutage(t, p)

	demotest.Must(t, redis.Start())
	wantLimits(t, p)
}

// wantOutage fails the test unless / is not limited and the login answers 503.
func wantOutage(t *testing.T, p *demotest.Process) {
	t.Helper()
	for range 12 { // more than the limit
		a := p.Do(t, "GET", "/")
		a.WantStatus(t, 200)
		a.WantField(t, "RateLimit", "")
	}
	a := p.Do(t, "POST", "/login")
	a.WantProblem(t, 503, "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity")
	a.RetryAfter(t)
	a.WantField(t, "RateLimit", "")
	demotest.Until(t, "the outage is logged", func() bool {
		return strings.Contains(p.Output(), "WARN weir: the store could not decide")
	})
}

// wantLimits waits until p uses Redis, which is empty, and fails the test unless the
// limits then apply.
func wantLimits(t *testing.T, p *demotest.Process) {
	t.Helper()
	demotest.Until(t, "requests are limited", func() bool {
		a := p.Do(t, "GET", "/")
		a.WantStatus(t, 200)
		return a.Header.Get("RateLimit") != ""
	})
	p.Do(t, "POST", "/login").WantStatus(t, 200)
	// 8 of 10 are left, and one is refilled every 6 s.
	demotest.Exhaust(t, core.Per(8, 48*time.Second), func() *demotest.Answer { return p.Do(t, "GET", "/") }).WantDenied(t, "minute")
}

func TestHints(t *testing.T) {
	redis := redistest.NewServer(t)
	demotest.RunHints(t, start(t, redis), "HTTP/1.1 200 OK", "200 200 200 200 200 429", "200 200 200 200 ")
}
