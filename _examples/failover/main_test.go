package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// longTimeout is a deadline that is met on a busy machine, too.
const longTimeout = "REDIS_TIMEOUT=2s"

func start(t *testing.T, redis *redistest.Server) *demotest.Process {
	t.Helper()
	return demotest.Start(t, "REDIS_URL=redis://"+redis.Addr+"/0", longTimeout)
}

// healthz returns the answer of the health check of p.
func healthz(t *testing.T, p *demotest.Process) (report struct {
	Limits          string
	Outages         int
	DecidedInMemory int    `json:"decided_in_memory"`
	FailedInRedis   int    `json:"failed_in_redis"`
	LastCause       string `json:"last_cause"`
}) {
	t.Helper()
	a := p.Do(t, "GET", "/healthz")
	a.WantStatus(t, 200)
	if err := json.Unmarshal([]byte(a.Body), &report); err != nil {
		t.Fatalf("%v: %s", err, a.Body)
	}
	return report
}

const (
	wholePolicy = `"minute";q=20;w=60`
	sharePolicy = `"minute";q=10;w=60`
)

// exhaust requests / until a request is denied, which must happen after n requests or a few more.
func exhaust(t *testing.T, p *demotest.Process, n int) *demotest.Answer {
	t.Helper()
	a := demotest.Exhaust(t, core.PerMinute(n), func() *demotest.Answer { return p.Do(t, "GET", "/") })
	a.WantDenied(t, "minute")
	return a
}

func TestRedis_StoppedAndStarted(t *testing.T) {
	redis := redistest.NewServer(t)
	one, two := start(t, redis), start(t, redis)
	exhaust(t, one, 20).WantField(t, "RateLimit-Policy", wholePolicy)
	two.Do(t, "GET", "/").WantDenied(t, "minute")
	if h := healthz(t, one); h.Limits != "primary" || h.Outages != 0 || h.DecidedInMemory != 0 || h.LastCause != "" {
		t.Errorf("before the outage: got %+v", h)
	}

	demotest.Must(t, redis.Stop())
	for _, p := range []*demotest.Process{one, two} {
		exhaust(t, p, 10).WantField(t, "RateLimit-Policy", sharePolicy)
		a := p.Do(t, "POST", "/login")
		a.WantProblem(t, 503, "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity")
		a.RetryAfter(t)
		demotest.Until(t, "the backup decides", func() bool { return healthz(t, p).Limits == "backup" })
		if h := healthz(t, p); h.Outages != 1 || h.DecidedInMemory < 11 || h.FailedInRedis == 0 || h.LastCause == "" {
			t.Errorf("during the outage: got %+v", h)
		}
		demotest.Until(t, "the change is logged", func() bool {
			return strings.Contains(p.Output(), "limits: from primary to backup, because weir: store unavailable: ")
		})
	}

	demotest.Must(t, redis.Start()) // empty
	for _, p := range []*demotest.Process{one, two} {
		demotest.Until(t, "Redis decides", func() bool { return healthz(t, p).Limits == "primary" })
		demotest.Until(t, "the change is logged", func() bool {
			return strings.Contains(p.Output(), "limits: from recovering to primary\n")
		})
	}
	demotest.Exhaust(t, core.Per(5, 15*time.Minute), func() *demotest.Answer { return one.Do(t, "POST", "/login") }).WantDenied(t, "login")
	two.Do(t, "POST", "/login").WantDenied(t, "login")
	exhaust(t, one, 20).WantField(t, "RateLimit-Policy", wholePolicy)
}

func TestRedis_AbsentAtStart(t *testing.T) {
	redis := redistest.NewServer(t)
	demotest.Must(t, redis.Stop())
	p := start(t, redis)
	exhaust(t, p, 10)
	p.Do(t, "POST", "/login").WantStatus(t, 503)
	demotest.Must(t, redis.Start())
	demotest.Until(t, "Redis decides", func() bool { return healthz(t, p).Limits == "primary" })
	exhaust(t, p, 20)
}

// Without REDIS_URL the example starts its own Redis, and starts it again after it was killed.
func TestHints(t *testing.T) {
	redistest.Require(t)
	p := demotest.Start(t, "REDIS_URL=", longTimeout)
	demotest.RunHints(t, p, `"limits":"primary"`, strings.Repeat("200 ", 20)+"429",
		`"limits":"backup"`, strings.Repeat("200 ", 10)+"429", sharePolicy, "HTTP/1.1 503", "HTTP/1.1 200 OK")
	killed := regexp.MustCompile(`kill -9 (\d+)`).FindStringSubmatch(p.Output())
	restarted := regexp.MustCompile(`Redis runs again, as process (\d+)`).FindStringSubmatch(p.Output())
	if killed == nil || restarted == nil || killed[1] == restarted[1] {
		t.Errorf("got %q and %q, want the killed process and another, restarted one", killed, restarted)
	}
}
