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
