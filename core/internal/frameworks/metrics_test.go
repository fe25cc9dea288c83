package frameworks_test

import (
	"database/sql"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/observe"
	weirotel "github.com/weir-go/weir/core/observe/otel"
	weirprometheus "github.com/weir-go/weir/core/observe/prometheus"
	"github.com/weir-go/weir/core/pgstore"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/core/rules"
	"github.com/weir-go/weir/internal/testkit"
)

// The metrics of all stores are those of METRICS.md, in which OpenTelemetry has the columns 0, 3 and 5, and Prometheus
// 1, 2 and 5.
func TestMetrics(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	all := resilient.New(rdb, "test")
	t.Cleanup(func() { _ = all.Close() })
	s := observe.New(lease.New(all), observe.Near(0.5))
	set, err := rules.New(s, &rules.Config{}, rules.Overrides(rules.RedisOf(s)))
	testkit.Must(t, err)
	s.Add(set)
	s.Add(pgstore.New(new(sql.DB), "test"))
	reader := metric.NewManualReader()
	_, err = weirotel.Register(s, metric.NewMeterProvider(metric.WithReader(reader)))
	testkit.Must(t, err)
	l := testkit.Limiter(t, s, core.SlidingLog("api", core.PerHour(1)).Plan("bad", core.Blocked))
	testkit.Allow(t, l.Plan("bad"), "k")
	testkit.Allow(t, l, "k") // the backup decides, after a call of the primary

	text, err := os.ReadFile("../../observe/METRICS.md")
	testkit.Must(t, err)
	for name, c := range map[string]struct {
		got          map[string]string
		column, kind int
	}{"OpenTelemetry": {collect(t, reader), 0, 3}, "Prometheus": {gather(t, s), 1, 2}} {
		for line := range strings.Lines(string(text)) {
			cells := strings.Split(strings.TrimPrefix(line, "| "), " | ")
			if len(cells) != 6 || !strings.HasPrefix(cells[c.column], "`") {
				continue
			}
			metric := strings.Trim(cells[c.column], "`")
			want := strings.Trim(cells[c.kind], "`") + " " + strings.TrimSuffix(strings.TrimSpace(cells[5]), " |")
			if c.got[metric] != want {
				t.Errorf("%s, %s: got %q, METRICS.md has %q", name, metric, c.got[metric], want)
			}
			delete(c.got, metric)
		}
		for metric, description := range c.got {
			t.Errorf("%s: %s is not in METRICS.md: %s", name, metric, description)
		}
	}
}

// collect returns the units and descriptions of the metrics by name.
func collect(t *testing.T, reader metric.Reader) map[string]string {
	t.Helper()
	var data metricdata.ResourceMetrics
	testkit.Must(t, reader.Collect(t.Context(), &data))
	all := make(map[string]string)
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			all[m.Name] = m.Unit + " " + m.Description
		}
	}
	return all
}

// gather returns the types and descriptions of the metrics of s by name.
func gather(t *testing.T, s *observe.Store) map[string]string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(weirprometheus.NewCollector(s))
	families, err := r.Gather()
	testkit.Must(t, err)
	all := make(map[string]string)
	for _, f := range families {
		all[f.GetName()] = strings.ToLower(f.GetType().String()) + " " + f.GetHelp()
	}
	problems, err := testutil.GatherAndLint(r)
	if err != nil || len(problems) > 0 {
		t.Errorf("got %v and %v, want metrics in the conventions of Prometheus", problems, err)
	}
	return all
}
