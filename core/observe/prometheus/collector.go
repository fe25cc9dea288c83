// Package prometheus exports the figures of an observe.Store to Prometheus.
//
//	store := observe.New(memstore.New())
//	prometheus.MustRegister(weirprometheus.NewCollector(store))
//
// The metrics are those of core/observe/METRICS.md. It is a module of its own, so that applications
// without Prometheus do not need its client.
package prometheus

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/observe"
)

// NewCollector returns a Collector of the figures of s. Each scrape takes a Snapshot. Several stores
// need a registry, or labels of prometheus.WrapRegistererWith, for each. NewCollector panics if s is nil.
func NewCollector(s *observe.Store) prometheus.Collector {
	if s == nil {
		panic("prometheus: NewCollector: the store is nil")
	}
	return collector{s}
}

type collector struct{ store *observe.Store }

// The labels of decisions, and those of measures.
var (
	byRule = []string{"rule", "plan", "result"}
	byPlan = []string{"rule", "plan"}
	byRole = []string{"role"}
)

var (
	requests  = prometheus.NewDesc("weir_requests_total", "Decisions, each counted for the rule that determined it.", byRule, nil)
	decisions = prometheus.NewDesc("weir_decisions_total", "Decisions, counted for each of their rules.", byRule, nil)
	near      = prometheus.NewDesc("weir_near_total", "Events after which more than a share of the limit was used.", byPlan, nil)
	duration  = prometheus.NewDesc("weir_store_duration_seconds", "Time of calls of a store on a network.", nil, nil)
)

// Describe implements [prometheus.Collector]. It sends nothing, because the measures depend on the
// parts of the store.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c collector) Collect(to chan<- prometheus.Metric) {
	n := c.store.Snapshot()
	counter := func(d *prometheus.Desc, value uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	for i := range n.Series {
		s := &n.Series[i]
		for r := driver.Result(0); r <= driver.Failed; r++ {
			if s.Requests[r] > 0 {
				counter(requests, s.Requests[r], s.Rule, s.Plan, r.String())
			}
			if s.Decisions[r] > 0 {
				counter(decisions, s.Decisions[r], s.Rule, s.Plan, r.String())
			}
		}
		if s.Near > 0 {
			counter(near, s.Near, s.Rule, s.Plan)
		}
	}
	buckets, below := make(map[float64]uint64), uint64(0)
	for i, bound := range observe.Bounds {
		below += n.Calls.Buckets[i]
		buckets[bound.Seconds()] = below
	}
	to <- prometheus.MustNewConstHistogram(duration, n.Calls.Count, n.Calls.Sum.Seconds(), buckets)
	for _, m := range n.Measures {
		kind := prometheus.GaugeValue
		if m.Total {
			kind = prometheus.CounterValue
		}
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc(name(m.Measure), m.Help, byRole, nil), kind, m.Value, m.Role)
	}
}

// name returns the name of m in the conventions of Prometheus.
func name(m driver.Measure) string {
	n := strings.ReplaceAll(m.Name, ".", "_")
	switch m.Unit {
	case "s":
		n += "_seconds"
	case "By":
		n += "_bytes"
	}
	if m.Total {
		n += "_total"
	}
	return n
}
