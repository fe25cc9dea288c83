package observe_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
	"github.com/weir-go/weir/core/storetest"
)

func ExampleStore_Snapshot() {
	store := observe.New(memstore.New(), observe.TopKeys(10), observe.ClearKeys())
	api := core.Must(core.New(store,
		core.SlidingWindow("api", core.PerMinute(2)),
		core.SlidingWindow("trial", core.PerMinute(1)).Shadow(), // a lower limit, to try it
	))
	for range 4 {
		if _, err := api.Allow(context.Background(), "user:ann"); err != nil {
			fmt.Println(err)
		}
	}

	s := store.Snapshot()
	total := s.Total()
	fmt.Println(total[driver.Allowed], "requests allowed,", total.Denied(), "denied")
	for _, rule := range s.Series {
		fmt.Println(rule.Rule, rule.Decisions[driver.Denied], "denied,", rule.Decisions[driver.ShadowDenied], "would have been denied")
	}
	for _, key := range s.Denied {
		fmt.Println(key.Key, "was denied", key.Count, "times by", key.Rule)
	}
	// Output:
	// 2 requests allowed, 2 denied
	// api 2 denied, 0 would have been denied
	// trial 0 denied, 3 would have been denied
	// user:ann was denied 2 times by api
}

// Counts by result, for a rule or for all decisions.
func ExampleCounts() {
	store := observe.New(memstore.New())
	api := core.Must(core.New(store, core.TokenBucket("api", core.PerHour(2)).Plan("banned", core.Blocked)))
	ctx := context.Background()
	for range 3 {
		_, _ = api.Allow(ctx, "alice")
	}
	_, _ = api.AllowN(ctx, "alice", 100)
	_, _ = api.Plan("banned").Allow(ctx, "mallory")

	total := store.Snapshot().Total()
	for result, n := range total {
		if n > 0 {
			fmt.Println(driver.Result(result), n)
		}
	}
	fmt.Println(total.Denied(), "of", total.Total(), "denied")
	// Output:
	// allowed 2
	// denied 1
	// never 1
	// blocked 1
	// 3 of 5 denied
}

// A decision about two rules is counted once in Requests, for the rule that determined it.
func ExampleSeries() {
	store := observe.New(memstore.New())
	api := core.Must(core.New(store,
		core.SlidingLog("hour", core.PerHour(2)),
		core.SlidingLog("day", core.PerDay(100)).Plan("pro", core.PerDay(1000))))
	for _, plan := range []string{"", "", "", "pro"} {
		_, _ = api.Plan(plan).Allow(context.Background(), "alice")
	}

	for _, s := range store.Snapshot().Series {
		fmt.Printf("%s %q: %d decisions, %d denied by this rule\n", s.Rule, s.Plan, s.Decisions.Total(), s.Requests[driver.Denied])
	}
	// Output:
	// day "": 3 decisions, 0 denied by this rule
	// day "pro": 1 decisions, 0 denied by this rule
	// hour "": 4 decisions, 2 denied by this rule
}

// Keys appear as HMACs. Tag returns that of a key, for the question whether a customer is among them.
func ExampleKey() {
	store := observe.New(memstore.New(), observe.TopKeys(10))
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerHour(2))))
	for range 5 {
		_, _ = api.Allow(context.Background(), "user:ann")
	}

	for _, key := range store.Snapshot().Denied {
		fmt.Println(key.Rule, key.Count, key.Key == store.Tag("user:ann"))
	}
	// Output: api 3 true
}

// Each part of the store has figures, here those of a memstore about its states.
func ExampleMeasure() {
	store := observe.New(memstore.New())
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerHour(2))))
	_, _ = api.Allow(context.Background(), "user:ann")

	for _, m := range store.Snapshot().Measures {
		if m.Unit == "{state}" {
			fmt.Println(m.Name, m.Value, m.Unit)
		}
	}
	// Output:
	// weir.memstore.states 1 {state}
	// weir.memstore.evicted 0 {state}
}

// Times are measured for a store with a deadline, such as a redisstore.
func ExampleCalls() {
	redis := new(storetest.Fake) // stands for a redisstore
	store := observe.New(redis.WithDeadline(100 * time.Millisecond))
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerHour(10))))
	for range 2 {
		_, _ = api.Allow(context.Background(), "user:ann")
	}

	calls := store.Snapshot().Calls
	mean := calls.Sum / time.Duration(calls.Count)
	fmt.Println(calls.Count, "calls, mean below 100 ms:", mean < 100*time.Millisecond)
	// Output: 2 calls, mean below 100 ms: true
}

// Denials are logged, at most one record a second for each rule.
func ExampleOption() {
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "retry_after" {
				return slog.Attr{} // differs from run to run
			}
			return a
		}}))
	store := observe.New(memstore.New(), observe.Logger(log), observe.ClearKeys())
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerHour(1))))
	for range 2 {
		_, _ = api.Allow(context.Background(), "user:ann")
	}
	// Output: level=INFO msg="weir: denied" rule=api plan="" result=denied key=user:ann suppressed=0
}
