// Package otel exports the figures of an observe.Store to OpenTelemetry.
//
//	store := observe.New(memstore.New())
//	_, err := weirotel.Register(store, otel.GetMeterProvider())
//
// The metrics are those of core/observe/METRICS.md. It is a module of its own, so that applications
// without OpenTelemetry do not need it.
package otel

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/observe"
)

// Register makes provider collect the figures of s, in one callback for each collection, until
// Unregister of the result is called. The parts of s must have been added before (observe.Store.Add).
// The histogram weir.store.duration uses s.OnCall, and belongs to the last Register. Register returns
// the errors of the provider, and panics if s or provider is nil.
func Register(s *observe.Store, provider metric.MeterProvider) (metric.Registration, error) {
	if s == nil {
		panic("otel: Register: the store is nil")
	} else if provider == nil {
		panic("otel: Register: the provider is nil")
	}
	meter := provider.Meter("github.com/weir-go/weir/core/observe")
	r := &reader{store: s, measures: make(map[string]metric.Float64Observable)}
	var all []metric.Observable
	var errs []error
	counter := func(name, help string) metric.Int64Observable {
		c, err := meter.Int64ObservableCounter(name, metric.WithDescription(help), metric.WithUnit("{decision}"))
		all, errs = append(all, c), append(errs, err)
		return c
	}
	r.requests = counter("weir.requests", "Decisions, each counted for the rule that determined it.")
	r.decisions = counter("weir.decisions", "Decisions, counted for each of their rules.")
	r.near = counter("weir.near", "Events after which more than a share of the limit was used.")
	for _, m := range s.Snapshot().Measures {
		if r.measures[m.Name] != nil {
			continue
		}
		var o metric.Float64Observable
		var err error
		if m.Total {
			o, err = meter.Float64ObservableCounter(m.Name, metric.WithDescription(m.Help), metric.WithUnit(m.Unit))
		} else {
			o, err = meter.Float64ObservableGauge(m.Name, metric.WithDescription(m.Help), metric.WithUnit(m.Unit))
		}
		r.measures[m.Name] = o
		all, errs = append(all, o), append(errs, err)
	}
	bounds := make([]float64, len(observe.Bounds))
	for i, b := range observe.Bounds {
		bounds[i] = b.Seconds()
	}
	duration, err := meter.Float64Histogram("weir.store.duration", metric.WithDescription("Time of calls of a store on a network."),
		metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(bounds...))
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	registration, err := meter.RegisterCallback(r.read, all...)
	if err == nil {
		s.OnCall(func(ctx context.Context, took time.Duration) { duration.Record(ctx, took.Seconds()) })
	}
	return registration, err
}

// A reader reads the figures of a Store.
type reader struct {
	store      *observe.Store
	measures   map[string]metric.Float64Observable
	attributes sync.Map // of names, the attributes

	requests, decisions, near metric.Int64Observable
}

// A name is that of a series, or the role of a measure.
type name struct {
	rule, plan, role string
	result           driver.Result
	any              bool // of all results
}

// with returns the attributes of n. Those of all series are made once.
func (r *reader) with(n name) metric.ObserveOption {
	if o, ok := r.attributes.Load(n); ok {
		return o.(metric.ObserveOption)
	}
	var set attribute.Set
	switch {
	case n.any:
		set = attribute.NewSet(attribute.String("weir.rule", n.rule), attribute.String("weir.plan", n.plan))
	case n.rule != "":
		set = attribute.NewSet(attribute.String("weir.rule", n.rule), attribute.String("weir.plan", n.plan), attribute.String("weir.result", n.result.String()))
	case n.role != "":
		set = attribute.NewSet(attribute.String("weir.role", n.role))
	}
	o := metric.WithAttributeSet(set)
	r.attributes.Store(n, o)
	return o
}

func (r *reader) read(_ context.Context, to metric.Observer) error {
	n := r.store.Snapshot()
	for i := range n.Series {
		s := &n.Series[i]
		for result := driver.Result(0); result <= driver.Failed; result++ {
			with := name{rule: s.Rule, plan: s.Plan, result: result}
			if s.Requests[result] > 0 {
				to.ObserveInt64(r.requests, int64(s.Requests[result]), r.with(with))
			}
			if s.Decisions[result] > 0 {
				to.ObserveInt64(r.decisions, int64(s.Decisions[result]), r.with(with))
			}
		}
		if s.Near > 0 {
			to.ObserveInt64(r.near, int64(s.Near), r.with(name{rule: s.Rule, plan: s.Plan, any: true}))
		}
	}
	for _, m := range n.Measures {
		if o := r.measures[m.Name]; o != nil {
			to.ObserveFloat64(o, m.Value, r.with(name{role: m.Role}))
		}
	}
	return nil
}
