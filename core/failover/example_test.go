package failover_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
)

// Usually, the primary is a redisstore.
func Example() {
	primary, backup := memstore.New(), memstore.New()
	store := failover.New(primary, backup, failover.Instances(4), failover.FailClosedFor("login"))
	defer store.Close()

	api := core.Must(core.New(store, core.TokenBucket("second", core.PerSecond(10))))
	d, err := api.Allow(context.Background(), "203.0.113.7")
	fmt.Println(d.Allowed, err, store.State())
	// Output: true <nil> primary
}

// While the primary is away, each of four processes enforces a quarter of the limit.
func ExampleInstances() {
	store := failover.New(absent(), memstore.New(), failover.Instances(4))
	defer store.Close()

	api := core.Must(core.New(store, core.SlidingLog("hour", core.PerHour(500))))
	d, err := api.Allow(context.Background(), "203.0.113.7")
	fmt.Println(d.State(0).Rule.Limit(), d.State(0).Remaining, err)
	// Output: 125/h 124 <nil>
}

// An Answer is a backup without states. Here every event is admitted during an outage, except logins.
func ExampleAnswer() {
	store := failover.New(absent(), failover.FailOpen, failover.FailClosedFor("login"))
	defer store.Close()
	search := core.Must(core.New(store, core.SlidingLog("search", core.PerHour(1))))
	login := core.Must(core.New(store, core.SlidingLog("login", core.PerHour(5))))

	ctx := context.Background()
	for _, l := range []*core.Limiter{search, search, login} {
		d, err := l.Allow(ctx, "203.0.113.7")
		fmt.Println(d.Allowed, errors.Is(err, core.ErrUnavailable))
	}
	// Output:
	// true false
	// true false
	// false true
}

// Check finds a name that no rule has, before the first outage does.
func ExampleStore_Check() {
	store := failover.New(memstore.New(), memstore.New(), failover.FailClosedFor("logn"))
	defer store.Close()
	core.Must(core.New(store, core.SlidingLog("login", core.PerHour(5))))

	fmt.Println(store.Check())
	// Output: weir: invalid rule: failover: FailClosedFor or FailOpenFor name ["logn"], which no limiter on the store has
}

// An alert tells when another store decides.
func ExampleState() {
	changed := make(chan failover.State, 10)
	store := failover.New(absent(), memstore.New(), failover.OnChange(func(_, to failover.State, _ error) { changed <- to }))
	defer store.Close()
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerHour(100))))

	fmt.Println(store.State())
	for range 5 {
		_, _ = api.Allow(context.Background(), "203.0.113.7")
	}
	fmt.Println(<-changed)
	// Output:
	// primary
	// backup
}

// A health handler reports that the backup decides, which is no reason to take the process out of
// service.
func ExampleStats() {
	store := failover.New(absent(), memstore.New())
	defer store.Close()

	health := func(w http.ResponseWriter, _ *http.Request) {
		stats := store.Stats()
		report := map[string]any{"limits": store.State().String(), "outages": stats.Outages}
		if store.State() != failover.Primary {
			report["cause"] = stats.Cause.Error()
		}
		_ = json.NewEncoder(w).Encode(report)
	}

	api := core.Must(core.New(store, core.TokenBucket("second", core.PerSecond(1000))))
	for range 5 {
		_, _ = api.Allow(context.Background(), "203.0.113.7")
	}
	w := httptest.NewRecorder()
	health(w, httptest.NewRequest(http.MethodGet, "/health", nil))
	fmt.Print(w.Body)
	// Output: {"cause":"connection refused","limits":"backup","outages":1}
}
