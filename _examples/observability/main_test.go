package main

import (
	"log"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/examples/internal/demotest"
)

func TestMain(m *testing.M) {
	if err := os.Setenv("PASSWORD", "a password of the test"); err != nil { // also for the commands that the example prints
		log.Fatal(err)
	}
	demotest.Main(m, main)
}

// start runs the example on redis, with a deadline that is met on a busy machine, too.
func start(t *testing.T, redis *redistest.Server) *demotest.Process {
	t.Helper()
	return demotest.Start(t, "REDIS_URL=redis://"+redis.Addr+"/0", "REDIS_TIMEOUT=2s")
}

// metrics returns the text that Prometheus reads from p.
func metrics(t *testing.T, p *demotest.Process) string {
	t.Helper()
	a := p.Do(t, "GET", "/metrics")
	a.WantStatus(t, 200)
	return a.Body
}

// wantPositive fails the test unless each of series has a value above zero.
func wantPositive(t *testing.T, metrics string, series ...string) {
	t.Helper()
	for _, s := range series {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(s) + ` [1-9]`).MatchString(metrics) {
			t.Errorf("%s is not above zero:\n%s", s, metrics)
		}
	}
}

// untilBackup sends logins, which fail closed, until the backup decides.
func untilBackup(t *testing.T, p *demotest.Process) {
	t.Helper()
	demotest.Until(t, "the backup decides", func() bool {
		p.Do(t, "POST", "/login").WantProblem(t, 503, "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity")
		return strings.Contains(metrics(t, p), `weir_failover_state{role=""} 1`)
	})
}

// wantLogged waits until p has logged messages, as JSON.
func wantLogged(t *testing.T, p *demotest.Process, messages ...string) {
	t.Helper()
	for _, m := range messages {
		demotest.Until(t, m+" is logged", func() bool { return strings.Contains(p.Output(), `"msg":"`+m+`"`) })
	}
}

// The metrics and the log have denials, soft ones, those of the shadow rule, and an outage. All names
// and labels of the alerts and the dashboard are then in the metrics.
func TestMetrics(t *testing.T) {
	redis := redistest.NewServer(t)
	p := start(t, redis)
	demotest.Exhaust(t, core.PerMinute(10), func() *demotest.Answer { return p.Do(t, "GET", "/") }).WantDenied(t, "page")
	demotest.Exhaust(t, core.PerMinute(30), func() *demotest.Answer { return p.Do(t, "GET", "/api") }).WantDenied(t, "api")
	p.Do(t, "POST", "/login").WantStatus(t, 200)
	wantPositive(t, metrics(t, p),
		`weir_requests_total{plan="",result="denied",rule="page"}`,
		`weir_requests_total{plan="",result="allowed",rule="api"}`,
		`weir_requests_total{plan="",result="soft",rule="api"}`,
		`weir_requests_total{plan="",result="denied",rule="api"}`,
		`weir_decisions_total{plan="",result="allowed",rule="trial"}`,
		`weir_decisions_total{plan="",result="shadow_denied",rule="trial"}`,
		`weir_store_duration_seconds_bucket{le="+Inf"}`,
		`weir_redis_round_trips_total{role="primary"}`,
		`example_requests_total{outcome="denied",route="GET /{$}"}`,
		`example_requests_total{outcome="soft",route="GET /api"}`)
	wantLogged(t, p, "weir: denied", "weir: a shadow rule would have denied")

	demotest.Must(t, redis.Stop())
	untilBackup(t, p)
	demotest.Until(t, "the cached denial ends", func() bool { return p.Do(t, "GET", "/").Status == 200 })
	all := metrics(t, p)
	wantPositive(t, all,
		`weir_failover_outages_total{role=""}`,
		`weir_failover_backup_total{role=""}`,
		`weir_store_failures_total{role=""}`,
		`weir_requests_total{plan="",result="error",rule="login"}`,
		`example_requests_total{outcome="refused",route="POST /login"}`)
	wantLogged(t, p, "weir: the store has changed")
	checkQueries(t, all)
}

func TestRedis_AbsentAtStart(t *testing.T) {
	redis := redistest.NewServer(t)
	demotest.Must(t, redis.Stop())
	p := start(t, redis)
	p.Do(t, "GET", "/").WantStatus(t, 200)
	untilBackup(t, p)
	demotest.Must(t, redis.Start())
	demotest.Until(t, "Redis decides", func() bool { return strings.Contains(metrics(t, p), `weir_failover_state{role=""} 0`) })
	p.Do(t, "POST", "/login").WantStatus(t, 200)
}

func TestHints(t *testing.T) {
	demotest.RunHints(t, start(t, redistest.NewServer(t)), strings.Repeat("200 ", 10)+"429", strings.Repeat("200 ", 30)+"429",
		`result="soft",rule="api"`, `result="shadow_denied",rule="trial"`, `weir_failover_state{role=""} 0`,
		`"rule":"page","limit":"10/m","mode":"enforced","used":"`) // 10, or fewer after 6 s
}
