package prometheus_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	weirprometheus "github.com/weir-go/weir/core/observe/prometheus"
)

// The metrics of the limits, beside those of the application.
func ExampleNewCollector() {
	store := observe.New(memstore.New())
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerHour(2))))
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	registry.MustRegister(weirprometheus.NewCollector(store))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	for range 3 {
		_, _ = api.Allow(context.Background(), "alice")
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "weir_requests_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// weir_requests_total{plan="",result="allowed",rule="api"} 2
	// weir_requests_total{plan="",result="denied",rule="api"} 1
}
