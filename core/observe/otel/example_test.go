package otel_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	weirotel "github.com/weir-go/weir/core/observe/otel"
)

// The metrics of the limits, beside those of the application.
func ExampleRegister() {
	store := observe.New(memstore.New())
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerHour(2))))
	reader := metric.NewManualReader() // in a program: a reader with an exporter
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	if _, err := weirotel.Register(store, provider); err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	for range 3 {
		_, _ = api.Allow(ctx, "alice")
	}
	var data metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &data); err != nil {
		fmt.Println(err)
		return
	}
	requests := make(map[string]int64)
	for _, m := range data.ScopeMetrics[0].Metrics {
		if m.Name == "weir.requests" {
			for _, point := range m.Data.(metricdata.Sum[int64]).DataPoints {
				result, _ := point.Attributes.Value("weir.result")
				requests[result.AsString()] = point.Value
			}
		}
	}
	fmt.Println(requests)
	// Output: map[allowed:2 denied:1]
}
