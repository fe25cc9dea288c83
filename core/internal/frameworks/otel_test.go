package frameworks_test

import (
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	weirotel "github.com/weir-go/weir/core/observe/otel"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/rules"
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

// The metrics of all stores are those of METRICS.md.
func TestRegister_Metrics(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	over := failover.New(lease.New(redisstore.New(rdb)), memstore.New())
	t.Cleanup(func() { _ = over.Close() })
	s := observe.New(denycache.New(over))
	set, err := rules.New(s, &rules.Config{}, rules.Overrides(rules.Redis(rdb)))
	testkit.Must(t, err)
	s.Add(set)
	l := testkit.Limiter(t, s, core.SlidingLog("api", core.PerHour(1)))
	reader := metric.NewManualReader()
	_, err = weirotel.Register(s, metric.NewMeterProvider(metric.WithReader(reader)))
	testkit.Must(t, err)
	testkit.Allow(t, l, "k") // the backup decides, after a call of the primary

	got := collect(t, reader)
	text, err := os.ReadFile("../../observe/METRICS.md")
	testkit.Must(t, err)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimPrefix(line, "| "), " | ")
		if len(cells) != 6 || !strings.HasPrefix(cells[0], "`") {
			continue
		}
		name := strings.Trim(cells[0], "`")
		m := got[name]
		want := strings.Trim(cells[3], "`") + " " + strings.TrimSuffix(strings.TrimSpace(cells[5]), " |")
		if have := m.Unit + " " + m.Description; have != want {
			t.Errorf("%s: got %q, METRICS.md has %q", name, have, want)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("%s is not in METRICS.md", name)
	}
}
