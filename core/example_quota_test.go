package core_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

// A customer has bought 1000 calls a month, and makes at most 10 a second. A call that one of the rules
// denies is charged to neither.
func ExampleQuota() {
	api := core.Must(core.New(memstore.New(),
		core.Quota("calls", core.Monthly(1000)),
		core.TokenBucket("rate", core.PerSecond(10))))
	ctx := context.Background()

	d, err := api.AllowN(ctx, "customer:7", 3) // a batch of three calls
	fmt.Println(d, err)
	d, err = api.AllowN(ctx, "customer:7", 8)
	fmt.Println(d.Allowed, d.State(0).Allowed, d.State(1).Allowed, err)

	calls, _ := d.StateOf("calls") // for a page that shows the usage
	fmt.Println("used", calls.Used(), "of", calls.Limit().Events)
	fmt.Println("resets within the month:", calls.Window <= 31*24*time.Hour)
	// Output:
	// allowed: "calls" 997 of 1000 left, "rate" 7 of 10 left <nil>
	// false true false <nil>
	// used 3 of 1000
	// resets within the month: true
}

// Limits of a Quota have a text, as all limits have. A day, a week and a month of the calendar differ from
// 24 hours, 7 days and 30 days.
func ExampleMonthly() {
	for _, limit := range []core.Limit{
		core.Daily(5),
		core.Weekly(20),
		core.Monthly(1_000_000),
		core.PerDay(5),
		core.Per(20, 7*24*time.Hour),
	} {
		fmt.Println(limit)
	}
	limit, err := core.ParseLimit("1000000/month")
	fmt.Println(limit == core.Monthly(1_000_000), err)
	// Output:
	// 5/day
	// 20/week
	// 1000000/month
	// 5/d
	// 20/7d
	// true <nil>
}

// The quota begins again at midnight in Tokyo. A program that runs where the system has no time zones, as in
// many container images, imports time/tzdata.
func ExampleRule_In() {
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		fmt.Println(err)
		return
	}
	reports := core.Quota("reports", core.Daily(20)).In(tokyo)
	limiter := core.Must(core.New(memstore.New(), reports))
	d, err := limiter.Allow(context.Background(), "ann")
	reset := time.Now().Add(d.State(0).Window).In(tokyo).Round(time.Minute)
	fmt.Println(reports)
	fmt.Println("resets at", reset.Format("15:04 MST"), err)
	// Output:
	// quota "reports" 20/day in Asia/Tokyo
	// resets at 00:00 JST <nil>
}

// The month of a customer begins when the subscription is renewed: here on the 15th at 09:30, and for the
// customers without a subscription on the first at midnight.
func ExampleRule_Anchor() {
	subscribed := map[string]time.Time{ // stands for a cache of the database: each decision reads it
		"customer:7": time.Date(2025, time.March, 15, 9, 30, 0, 0, time.UTC),
	}
	limiter := core.Must(core.New(memstore.New(), core.Quota("calls", core.Monthly(1000)).
		Anchor(func(_ context.Context, key string) time.Time { return subscribed[key] })))
	for _, key := range []string{"customer:7", "customer:8"} {
		d, err := limiter.Allow(context.Background(), key)
		reset := time.Now().Add(d.State(0).Window).UTC().Round(time.Minute)
		fmt.Println(key, "resets on day", reset.Day(), "at", reset.Format("15:04"), err)
	}
	// Output:
	// customer:7 resets on day 15 at 09:30 <nil>
	// customer:8 resets on day 1 at 00:00 <nil>
}

// The batch jobs of a customer leave 20 of 100 tokens to the interactive requests.
func ExampleRule_Headroom() {
	api := core.Must(core.New(memstore.New(),
		core.TokenBucket("api", core.PerHour(100)).Headroom("batch", 20)))
	batch := api.Plan("batch")
	ctx := context.Background()

	admitted := 0
	for {
		d, err := batch.Allow(ctx, "customer:7")
		if err != nil || !d.Allowed {
			break
		}
		admitted++
	}
	fmt.Println("batch:", admitted)
	for {
		d, err := api.Allow(ctx, "customer:7")
		if err != nil || !d.Allowed {
			break
		}
		admitted++
	}
	fmt.Println("all:", admitted)
	// Output:
	// batch: 80
	// all: 100
}

// Period is the length of the present day, which has 23 or 25 hours when the clocks of a place change.
func ExampleState_Period() {
	limiter := core.Must(core.New(memstore.New(),
		core.Quota("day", core.Daily(100)),
		core.FixedWindow("hour", core.PerHour(20))))
	d, err := limiter.Allow(context.Background(), "ann")
	day, hour := d.State(0), d.State(1)
	fmt.Println(day.Period(), hour.Period(), err)
	// Output: 24h0m0s 0s <nil>
}
