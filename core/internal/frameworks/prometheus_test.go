package frameworks_test

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	weirprometheus "github.com/weir-go/weir/core/observe/prometheus"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/rules"
)

// gather returns the metrics of s by name.
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

// The metrics of all stores are those of METRICS.md.
func TestCollector_Metrics(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // is not called
	t.Cleanup(func() { _ = rdb.Close() })
	over := failover.New(lease.New(redisstore.New(rdb)), memstore.New())
	t.Cleanup(func() { _ = over.Close() })
	s := observe.New(denycache.New(over))
	set, err := rules.New(s, &rules.Config{}, rules.Overrides(rules.Redis(rdb)))
	testkit.Must(t, err)
	s.Add(set)
	l := testkit.Limiter(t, s, core.SlidingLog("api", core.PerHour(1)).Plan("bad", core.Blocked))
	testkit.Allow(t, l.Plan("bad"), "k")

	got := gather(t, s)
	text, err := os.ReadFile("../../observe/METRICS.md")
	testkit.Must(t, err)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimPrefix(line, "| "), " | ")
		if len(cells) != 6 || !strings.HasPrefix(cells[1], "`") {
			continue
		}
		name, want := strings.Trim(cells[1], "`"), cells[2]+" "+strings.TrimSuffix(strings.TrimSpace(cells[5]), " |")
		if got[name] != want {
			t.Errorf("%s: got %q, METRICS.md has %q", name, got[name], want)
		}
		delete(got, name)
	}
	for name, description := range got {
		t.Errorf("%s is not in METRICS.md: %s", name, description)
	}
}
