package core_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/keyfunc"
	"github.com/weir-go/weir/nethttplimit"
)

// A limiter with two rules, 500 events an hour and 10 a minute: an event is charged to both or to
// neither.
func Example() {
	api := core.Must(core.New(memstore.New(),
		core.SlidingLog("hour", core.PerHour(500)),
		core.TokenBucket("minute", core.PerMinute(10))))

	ctx := context.Background()
	for range 11 {
		d, err := api.Allow(ctx, "user:241531")
		if err != nil {
			fmt.Println(err) // no decision: the application chooses whether to admit the event
			return
		}
		if !d.Allowed {
			fmt.Println("retry in", d.RetryAfter.Round(time.Second))
		}
	}
	d, _ := api.Peek(ctx, "user:241531")
	hour, _ := d.StateOf("hour")
	fmt.Println(hour.Remaining, "left of the hour")
	// Output:
	// retry in 6s
	// 490 left of the hour
}

// Each action of a customer has its own limiter on one store, with the customer as the key.
func Example_perCustomer() {
	store := memstore.New()
	posts := core.Must(core.New(store, core.TokenBucket("posts", core.PerSecond(1))))
	friends := core.Must(core.New(store, core.SlidingWindow("friends", core.PerDay(150))))
	likes := core.Must(core.New(store, core.TokenBucket("likes", core.PerSecond(5))))

	ctx := context.Background()
	for _, action := range []struct {
		name    string
		limiter *core.Limiter
	}{{"post", posts}, {"friend", friends}, {"like", likes}} {
		admitted := 0
		for range 200 {
			if d, err := action.limiter.Allow(ctx, "alice"); err == nil && d.Allowed {
				admitted++
			}
		}
		fmt.Println(action.name, admitted)
	}
	// Output:
	// post 1
	// friend 150
	// like 5
}

// A limiter with a constant key limits the whole system. Together with the limiter of the customer,
// it is not charged for events of customers that exceed their own limit.
func ExampleAllowTogether() {
	store := memstore.New()
	system := core.Must(core.New(store, core.TokenBucket("system", core.PerSecond(10_000))))
	customer := core.Must(core.New(store, core.SlidingLog("customer", core.PerHour(5))))

	ctx := context.Background()
	admitted := 0
	for range 50 {
		d, err := core.AllowTogether(ctx,
			core.Ask{Limiter: customer, Key: "alice", Cost: 1},
			core.Ask{Limiter: system, Key: "all", Cost: 1})
		if err == nil && d.Allowed {
			admitted++
		}
	}
	fmt.Println(admitted)
	// Output: 5
}

// An estimate of the tokens of a language model is charged before a call, and the real cost after
// it. A cost beyond the limit is a debt, which delays later calls.
func ExampleLimiter_Reserve() {
	tokens := core.Must(core.New(memstore.New(), core.TokenBucket("tokens", core.PerMinute(6000))))

	ctx := context.Background()
	r, err := tokens.Reserve(ctx, "alice", 500)
	if err != nil || !r.Decision().Allowed {
		return
	}
	used := 9000 // as the model says
	if err := r.Settle(ctx, used); err != nil {
		fmt.Println(err)
	}
	d, _ := tokens.AllowN(ctx, "alice", 500)
	fmt.Println(d.Allowed, d.RetryAfter.Round(time.Second))
	// Output: false 35s
}

// The tokens of a stream are taken in blocks. The stream ends at the token that uses up the budget, and
// the rest of its last block is refunded.
func ExampleLimiter_ReserveAtMost() {
	tokens := core.Must(core.New(memstore.New(), core.TokenBucket("tokens", core.PerDay(120))))

	ctx := context.Background()
	stream := func(length int) (sent int) {
		for sent < length {
			block, err := tokens.ReserveAtMost(ctx, "alice", 50)
			if err != nil || block.Cost() == 0 {
				return sent
			}
			used := min(block.Cost(), length-sent)
			sent += used // forward so many tokens
			if err := block.Settle(ctx, used); err != nil {
				fmt.Println(err)
			}
		}
		return sent
	}
	fmt.Println(stream(80), stream(80), stream(80))
	// Output: 80 40 0
}

// Up to 10 percent more than the limit is admitted, and flagged.
func ExampleRule_Soft() {
	l := core.Must(core.New(memstore.New(), core.SlidingLog("hour", core.PerHour(20)).Soft(10)))
	for n := 1; n <= 23; n++ {
		if d, err := l.Allow(context.Background(), "alice"); err == nil && (d.Soft() || !d.Allowed) {
			fmt.Println(n, d.Allowed)
		}
	}
	// Output:
	// 21 true
	// 22 true
	// 23 false
}

// The limit doubles while the backup job is not running. Package load has a signal for idle CPU time.
func ExampleRule_Elastic() {
	running := true
	spare := func() float64 {
		if running {
			return 0
		}
		return 1
	}
	l := core.Must(core.New(memstore.New(), core.SlidingLog("search", core.PerMinute(10)).Elastic(spare, 2)))
	for range 2 {
		d, _ := l.Peek(context.Background(), "alice")
		fmt.Println(d.State(0).Rule.Limit())
		running = false
	}
	// Output:
	// 10/m
	// 20/m
}

// A limit is tried on real traffic before it is enforced.
func ExampleRule_Shadow() {
	l := core.Must(core.New(memstore.New(),
		core.TokenBucket("today", core.PerMinute(100)),
		core.TokenBucket("tomorrow", core.PerMinute(2)).Shadow()))
	for range 3 {
		d, _ := l.Allow(context.Background(), "alice")
		tomorrow, _ := d.StateOf("tomorrow")
		fmt.Println(d.Allowed, tomorrow.Allowed)
	}
	// Output:
	// true true
	// true true
	// true false
}

// A rule that counts tokens of a language model names them to clients. The specification of the
// header fields defines a parameter for bytes only.
func ExampleRule_Unit() {
	limiter := core.Must(core.New(memstore.New(),
		core.FixedWindow("model", core.PerDay(50_000)).Unit("tokens"),
		core.FixedWindow("upload", core.PerDay(1_000_000)).Unit("bytes")))
	cost := func(context.Context, *http.Request) int { return 60_000 }
	h := nethttplimit.New(limiter, keyfunc.RemoteIP(), gate.Cost(cost))(http.NotFoundHandler())

	r := httptest.NewRequest("POST", "/", nil)
	r.Header.Set("Accept", "text/plain")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Println(w.Header().Get("RateLimit-Policy"))
	fmt.Print(w.Body)
	// Output:
	// "model";q=50000;w=86400, "upload";q=1000000;qu="content-bytes";w=86400
	// Policy "model" allows 50000 tokens per 86400 s. This request costs more than the policy ever allows.
}

// Paying customers have a larger limit of the same rule. A caller with a plan that the rule does not
// have gets the limit without a plan.
func ExampleRule_Plan() {
	api := core.Must(core.New(memstore.New(),
		core.TokenBucket("api", core.PerMinute(10)).
			Plan("pro", core.PerMinute(100)).
			Plan("staff", core.Unlimited).
			Plan("banned", core.Blocked)))

	ctx := context.Background()
	for _, customer := range []struct{ key, plan string }{{"alice", ""}, {"bob", "pro"}, {"carol", "staff"}, {"mallory", "banned"}} {
		d, err := api.Plan(customer.plan).Allow(ctx, customer.key)
		fmt.Println(d, err)
	}
	// Output:
	// allowed: "api" 9 of 10 left <nil>
	// allowed: "api" 99 of 100 left <nil>
	// allowed: "api" unlimited <nil>
	// denied for ever: "api" blocked <nil>
}

// A stricter limit is tried on the events of the same keys before it replaces the old one.
func ExampleLimiter_Variant() {
	api := core.Must(core.New(memstore.New(),
		core.TokenBucket("api", core.PerMinute(10)),
		core.SlidingLog("day", core.PerDay(1000))))
	strict := core.Must(api.Variant(core.TokenBucket("api", core.PerMinute(5))))

	ctx := context.Background()
	_, _ = api.AllowN(ctx, "alice", 4)
	d, _ := strict.Peek(ctx, "alice")
	fmt.Println(d) // 4 of 10 events are 2 of 5: limits of one length share a state
	// Output: allowed: "api" 3 of 5 left, "day" 996 of 1000 left
}

// One customer has bought a larger limit.
func ExampleLimiter_Choose() {
	all := core.Must(core.New(memstore.New(), core.TokenBucket("api", core.PerMinute(10))))
	exceptions := map[string]*core.Limiter{
		"alice": core.Must(all.Variant(core.TokenBucket("api", core.PerMinute(500)))),
	}
	api := all.Choose(func(_ context.Context, key string) (*core.Limiter, error) {
		return exceptions[key], nil // nil for other customers
	})

	ctx := context.Background()
	for _, key := range []string{"alice", "bob"} {
		d, _ := api.Allow(ctx, key)
		fmt.Println(key, d)
	}
	// Output:
	// alice allowed: "api" 499 of 500 left
	// bob allowed: "api" 9 of 10 left
}

// The limit is read from a new configuration while the limiter is used.
func ExampleLimiter_Replace() {
	api := core.Must(core.New(memstore.New(), core.SlidingLog("api", core.PerMinute(10))))

	ctx := context.Background()
	_, _ = api.AllowN(ctx, "alice", 10)
	for _, text := range []string{"20/m", "20 per minute"} {
		limit, err := core.ParseLimit(text)
		if err == nil {
			err = api.Replace(core.SlidingLog("api", limit))
		}
		d, _ := api.Allow(ctx, "alice")
		fmt.Println(d, err != nil)
	}
	// Output:
	// allowed: "api" 9 of 20 left false
	// allowed: "api" 8 of 20 left true
}

// A call of a language model costs one request and many tokens. The number of tokens is known after
// the call.
func ExampleReservation_SettleFor() {
	store := memstore.New()
	requests := core.Must(core.New(store, core.SlidingLog("requests", core.PerMinute(60))))
	tokens := core.Must(core.New(store, core.TokenBucket("tokens", core.PerHour(6000))))

	ctx := context.Background()
	r, err := core.ReserveTogether(ctx,
		core.Ask{Limiter: requests, Key: "alice"},
		core.Ask{Limiter: tokens, Key: "alice", Cost: 500}) // an estimate
	if err != nil || !r.Decision().Allowed {
		return
	}
	used := 2000 // as the model says
	if err := r.SettleFor(ctx, tokens, used); err != nil {
		fmt.Println(err)
	}
	for _, l := range []*core.Limiter{requests, tokens} {
		d, _ := l.Peek(ctx, "alice")
		fmt.Println(d)
	}
	// Output:
	// allowed: "requests" 59 of 60 left
	// allowed: "tokens" 4000 of 6000 left
}
