package core_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

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
