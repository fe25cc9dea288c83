package otel_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	weirotel "github.com/weir-go/weir/core/observe/otel"
	"github.com/weir-go/weir/internal/testkit"
)

// collect returns the metrics of s by name.
func collect(t *testing.T, reader metric.Reader) map[string]metricdata.Metrics {
	t.Helper()
	var data metricdata.ResourceMetrics
	testkit.Must(t, reader.Collect(t.Context(), &data))
	all := make(map[string]metricdata.Metrics)
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			all[m.Name] = m
		}
	}
	return all
}

// deadlined is a store with a deadline.
type deadlined struct{ core.Store }

func (deadlined) Describe() driver.Description { return driver.Description{Deadline: time.Second} }

func TestRegister(t *testing.T) {
	s := observe.New(deadlined{memstore.New()}, observe.Near(0.6))
	l := testkit.Limiter(t, s, core.SlidingLog("api", core.PerHour(2)).Plan("pro", core.PerHour(3)).Plan("bad", core.Blocked), core.SlidingLog("day", core.PerDay(9)))
	reader := metric.NewManualReader()
	registration, err := weirotel.Register(s, metric.NewMeterProvider(metric.WithReader(reader)))
	testkit.Must(t, err)
	for range 3 {
		testkit.Allow(t, l, "k")
	}
	testkit.Allow(t, l.Plan("pro"), "other")
	testkit.Allow(t, l.Plan("bad"), "other")
	ban := testkit.Limiter(t, s, core.SlidingLog("ban", core.PerHour(2)).BlockFor(time.Minute))
	testkit.Ask(t, ban, "k", 1)
	testkit.Ask(t, ban, "k", 2)
	got := collect(t, reader)
	for name, want := range map[string]map[string]int64{
		"weir.requests": {
			"weir.plan= weir.result=allowed weir.rule=api": 2, "weir.plan= weir.result=denied weir.rule=api": 1,
			"weir.plan=pro weir.result=allowed weir.rule=api": 1, "weir.plan=bad weir.result=blocked weir.rule=api": 1,
			"weir.plan= weir.result=allowed weir.rule=ban": 1, "weir.plan= weir.result=banned weir.rule=ban": 1,
		},
		"weir.near": {"weir.plan= weir.rule=api": 2, "weir.plan= weir.rule=ban": 1},
		"weir.decisions": {
			"weir.plan= weir.result=allowed weir.rule=api": 2, "weir.plan= weir.result=denied weir.rule=api": 1,
			"weir.plan=pro weir.result=allowed weir.rule=api": 1, "weir.plan=bad weir.result=blocked weir.rule=api": 1,
			"weir.plan= weir.result=allowed weir.rule=ban": 1, "weir.plan= weir.result=banned weir.rule=ban": 1,
			"weir.plan= weir.result=allowed weir.rule=day": 4, "weir.plan= weir.result=unknown weir.rule=day": 1,
		},
	} {
		counts := make(map[string]int64)
		for _, p := range got[name].Data.(metricdata.Sum[int64]).DataPoints {
			var names []string
			for _, a := range p.Attributes.ToSlice() {
				names = append(names, fmt.Sprint(a.Key, "=", a.Value.AsString()))
			}
			counts[strings.Join(names, " ")] = p.Value
		}
		if fmt.Sprint(counts) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", name, counts, want)
		}
	}
	if h := got["weir.store.duration"].Data.(metricdata.Histogram[float64]).DataPoints[0]; h.Count != 7 || h.Sum <= 0 {
		t.Errorf("got %d calls in %v s, want 7", h.Count, h.Sum)
	}
	testkit.Must(t, registration.Unregister())
	if n := len(collect(t, reader)); n > 1 { // the histogram
		t.Errorf("got %d metrics after Unregister, want the histogram alone", n)
	}
}

func TestRegister_InvalidArguments(t *testing.T) {
	testkit.Panics(t, "otel: Register: the store is nil", func() { _, _ = weirotel.Register(nil, metric.NewMeterProvider()) })
	testkit.Panics(t, "otel: Register: the provider is nil", func() { _, _ = weirotel.Register(observe.New(memstore.New()), nil) })
}
