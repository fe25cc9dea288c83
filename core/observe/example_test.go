package observe_test

import (
	"context"
	"fmt"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
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
