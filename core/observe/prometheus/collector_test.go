package prometheus_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	weirprometheus "github.com/weir-go/weir/core/observe/prometheus"
	"github.com/weir-go/weir/internal/testkit"
)

func TestCollector_Collect(t *testing.T) {
	s := observe.New(memstore.New(), observe.Near(0.9))
	l := testkit.Limiter(t, s, core.SlidingLog("api", core.PerHour(2)).Plan("pro", core.PerHour(3)).Plan("bad", core.Blocked), core.SlidingLog("trial", core.PerHour(1)).Shadow())
	for range 3 {
		testkit.Allow(t, l, "k")
	}
	testkit.Allow(t, l.Plan("pro"), "other")
	testkit.Allow(t, l.Plan("bad"), "other")
	ban := testkit.Limiter(t, s, core.SlidingLog("ban", core.PerHour(1)).BlockFor(time.Minute))
	testkit.Allow(t, ban, "k")
	testkit.Allow(t, ban, "k")
	testkit.Peek(t, l, "k")
	err := testutil.CollectAndCompare(weirprometheus.NewCollector(s), strings.NewReader(`
# HELP weir_decisions_total Decisions, counted for each of their rules.
# TYPE weir_decisions_total counter
weir_decisions_total{plan="",result="allowed",rule="api"} 2
weir_decisions_total{plan="",result="denied",rule="api"} 1
weir_decisions_total{plan="bad",result="blocked",rule="api"} 1
weir_decisions_total{plan="pro",result="allowed",rule="api"} 1
weir_decisions_total{plan="",result="allowed",rule="ban"} 1
weir_decisions_total{plan="",result="banned",rule="ban"} 1
weir_decisions_total{plan="",result="allowed",rule="trial"} 2
weir_decisions_total{plan="",result="shadow_denied",rule="trial"} 2
weir_decisions_total{plan="",result="unknown",rule="trial"} 1
# HELP weir_near_total Events after which more than a share of the limit was used.
# TYPE weir_near_total counter
weir_near_total{plan="",rule="api"} 2
weir_near_total{plan="",rule="ban"} 2
weir_near_total{plan="",rule="trial"} 4
# HELP weir_requests_total Decisions, each counted for the rule that determined it.
# TYPE weir_requests_total counter
weir_requests_total{plan="",result="allowed",rule="api"} 2
weir_requests_total{plan="",result="denied",rule="api"} 1
weir_requests_total{plan="bad",result="blocked",rule="api"} 1
weir_requests_total{plan="pro",result="allowed",rule="api"} 1
weir_requests_total{plan="",result="allowed",rule="ban"} 1
weir_requests_total{plan="",result="banned",rule="ban"} 1
# HELP weir_peeks_total Decisions that charged nothing.
# TYPE weir_peeks_total counter
weir_peeks_total{role=""} 1
`), "weir_decisions_total", "weir_near_total", "weir_requests_total", "weir_peeks_total")
	if err != nil {
		t.Error(err)
	}
}

func TestNewCollector_NoStore(t *testing.T) {
	testkit.Panics(t, "prometheus: NewCollector: the store is nil", func() { weirprometheus.NewCollector(nil) })
}
