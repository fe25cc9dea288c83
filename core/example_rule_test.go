package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

// Limits have a text, for configuration files and flags.
func ExampleLimit() {
	var config struct{ Search, Export core.Limit }
	err := json.Unmarshal([]byte(`{"search": "10/s burst 20", "export": "5/15m"}`), &config)
	fmt.Println(config.Search.Events, config.Search.Per, config.Search.Burst, err)
	fmt.Println(config.Export.Events, config.Export.Per, config.Export.Burst)
	// Output:
	// 10 1s 20 <nil>
	// 5 15m0s 0
}

// PerSecond, PerMinute, PerHour and PerDay are short forms of Per.
func ExamplePerMinute() {
	for _, limit := range []core.Limit{
		core.PerSecond(10),
		core.PerSecond(10).WithBurst(50),
		core.PerMinute(100),
		core.PerHour(500),
		core.PerDay(1000),
		core.Per(5, 15*time.Minute),
		core.Unlimited,
		core.Blocked,
	} {
		fmt.Println(limit)
	}
	// Output:
	// 10/s
	// 10/s burst 50
	// 100/m
	// 500/h
	// 1000/d
	// 5/15m
	// unlimited
	// blocked
}

// admit sends events of one key until one is denied, and returns the number of admitted events and
// the wait of the denied event.
func admit(l *core.Limiter) (admitted int, retry time.Duration) {
	for {
		d, err := l.Allow(context.Background(), "alice")
		if err != nil || !d.Allowed {
			return admitted, d.RetryAfter
		}
		admitted++
	}
}

// A window of a minute never contains more than 100 events. An event counts for up to a second
// longer than a minute.
func ExampleSlidingWindow() {
	contract := core.Must(core.New(memstore.New(), core.SlidingWindow("contract", core.PerMinute(100))))
	admitted, retry := admit(contract)
	fmt.Println(admitted, "admitted, another one within 61 s:", retry <= 61*time.Second)
	// Output: 100 admitted, another one within 61 s: true
}

// A window of 15 minutes never contains more than 5 events. Each event counts for exactly 15 minutes.
func ExampleSlidingLog() {
	login := core.Must(core.New(memstore.New(), core.SlidingLog("login", core.Per(5, 15*time.Minute))))
	admitted, retry := admit(login)
	fmt.Println(admitted, "admitted, another one in", retry.Round(time.Second))
	// Output: 5 admitted, another one in 15m0s
}

// A full bucket admits a burst of 20 events. An empty one admits an event every six seconds.
func ExampleTokenBucket() {
	api := core.Must(core.New(memstore.New(), core.TokenBucket("api", core.PerMinute(10).WithBurst(20))))
	admitted, retry := admit(api)
	fmt.Println(admitted, "admitted, another one in", retry.Round(time.Second))
	// Output: 20 admitted, another one in 6s
}

// Events depart every six seconds. An event that finds the queue full is denied. A middleware holds
// a request for the Delay, and [core.Limiter.Wait] waits for it.
func ExampleLeakyBucket() {
	mail := core.Must(core.New(memstore.New(), core.LeakyBucket("mail", core.PerMinute(10).WithBurst(3))))
	for range 4 {
		d, _ := mail.Allow(context.Background(), "smtp.example.com")
		fmt.Println(d.Allowed, d.Delay.Round(time.Second))
	}
	// Output:
	// true 0s
	// true 6s
	// true 12s
	// false 0s
}

// A quota that restarts at midnight UTC.
func ExampleFixedWindow() {
	quota := core.Must(core.New(memstore.New(), core.FixedWindow("quota", core.PerDay(1000))))
	d, _ := quota.AllowN(context.Background(), "alice", 250)
	state := d.State(0)
	fmt.Println(state.Used(), "of", state.Limit(), "- restarts within a day:", state.ResetAfter <= 24*time.Hour)
	// Output: 250 of 1000/d - restarts within a day: true
}

// An error of New names the rule and the field.
func ExampleRuleError() {
	_, err := core.New(memstore.New(),
		core.SlidingWindow("minute", core.PerMinute(100)),
		core.SlidingWindow("day", core.PerDay(1000).WithBurst(50)))
	var invalid *core.RuleError
	if errors.As(err, &invalid) {
		fmt.Println(invalid.Rule, invalid.Field)
	}
	fmt.Println(err, errors.Is(err, core.ErrInvalidRule))
	// Output:
	// day burst
	// weir: rule "day": burst has no meaning for sliding_window true
}

// Rules with one name on one store share their states: both limiters use up the same three requests.
func ExampleNew() {
	store := memstore.New()
	api := core.SlidingLog("api", core.PerHour(3))
	read := core.Must(core.New(store, api))
	write := core.Must(core.New(store, api, core.SlidingLog("write", core.PerHour(1))))

	ctx := context.Background()
	for _, l := range []*core.Limiter{read, write, read, read} {
		d, err := l.Allow(ctx, "alice")
		fmt.Println(d.Allowed, d.State(0).Remaining, err)
	}
	_, err := core.New(store, core.SlidingLog("api", core.PerHour(4)))
	fmt.Println(errors.Is(err, core.ErrRuleConflict))
	// Output:
	// true 2 <nil>
	// true 1 <nil>
	// true 0 <nil>
	// false 0 <nil>
	// true
}

// Limiters of constant rules are variables of a package. An invalid rule ends the program at its start.
func ExampleMust() {
	defer func() { fmt.Println(recover()) }()
	var login = core.Must(core.New(memstore.New(), core.SlidingLog("login", core.PerMinute(0))))
	fmt.Println(login)
	// Output: core: Must: weir: rule "login": events is 0, not positive
}

// An error is no denial: it means that nothing was decided. A cost above the capacity is never admitted.
func ExampleDecision() {
	uploads := core.Must(core.New(memstore.New(), core.TokenBucket("megabytes", core.PerHour(60))))
	for _, size := range []int{50, 20, 100} {
		switch d, err := uploads.AllowN(context.Background(), "alice", size); {
		case err != nil:
			fmt.Println(size, "undecided:", err)
		case d.Allowed:
			fmt.Println(size, "admitted")
		case d.RetryAfter == core.Never:
			fmt.Println(size, "too large")
		default:
			fmt.Println(size, "retry in", d.RetryAfter.Round(time.Minute))
		}
	}
	// Output:
	// 50 admitted
	// 20 retry in 10m0s
	// 100 too large
}

// A page for customers shows each rule. A Peek charges nothing.
func ExampleState() {
	api := core.Must(core.New(memstore.New(),
		core.SlidingLog("hour", core.PerHour(100)),
		core.SlidingLog("day", core.PerDay(1000))))

	ctx := context.Background()
	_, _ = api.AllowN(ctx, "alice", 40)
	d, err := api.Peek(ctx, "alice")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range d.States() {
		fmt.Println(s.Rule.Name(), s.Used(), "used,", s.Remaining, "left of", s.Limit(), "- unused in", s.ResetAfter.Round(time.Minute))
	}
	// Output:
	// hour 40 used, 60 left of 100/h - unused in 1h0m0s
	// day 40 used, 960 left of 1000/d - unused in 24h0m0s
}

// An upload costs one request and its size, in one decision. The denied upload is charged to neither
// limiter.
func ExampleAsk() {
	store := memstore.New()
	requests := core.Must(core.New(store, core.SlidingLog("requests", core.PerHour(100))))
	megabytes := core.Must(core.New(store, core.TokenBucket("megabytes", core.PerDay(50)).Plan("pro", core.PerDay(500))))

	for _, plan := range []string{"pro", ""} {
		d, err := core.AllowTogether(context.Background(),
			core.Ask{Limiter: requests, Key: "alice"},
			core.Ask{Limiter: megabytes, Key: "alice", Cost: 80, Plan: plan})
		fmt.Println(d, err)
	}
	// Output:
	// allowed: "requests" 99 of 100 left, "megabytes" 420 of 500 left <nil>
	// denied for ever: "requests" 99 of 100 left, "megabytes" 42 of 50 left <nil>
}

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
