package driver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/observe"
)

// noon is a time in microseconds since the Unix epoch, as stores use them.
var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC).UnixMicro()

const second = int64(time.Second / time.Microsecond)

// A key of one rule is charged three times at once, and once after half a minute.
func ExampleCharge() {
	rule, err := driver.Definition{Name: "api", Algorithm: driver.TokenBucket, Events: 2, Per: time.Minute}.Compile()
	if err != nil {
		panic(err)
	}
	var state driver.State // of an unused key
	for _, now := range []int64{noon, noon, noon, noon + 30*second} {
		c := driver.Charge{Key: "alice", Rule: rule, Cost: 1}
		r := c.Read(state, now)
		admitted := c.Fits(&r) // with several rules: all of them must fit
		state, _ = c.Commit(state, &r, now, admitted)
		c.Answer(&r, admitted)
		fmt.Println(c.Verdict.Allowed, c.Verdict.Remaining, c.Verdict.RetryAfter)
	}
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 30s
	// true 0 0s
}

// A Receipt undoes exactly one charge. The other charges of the key stay.
func ExampleReceipt() {
	rule, err := driver.Definition{Name: "api", Algorithm: driver.SlidingLog, Events: 10, Per: time.Minute}.Compile()
	if err != nil {
		panic(err)
	}
	var state driver.State
	spend := driver.Charge{Key: "alice", Rule: rule, Cost: 4}
	state, _ = spend.Decide(state, noon)
	other := driver.Charge{Key: "alice", Rule: rule, Cost: 1}
	state, _ = other.Decide(state, noon+second)

	undo := driver.Charge{Key: "alice", Rule: rule, Op: driver.Undo, Cost: 4, Receipt: spend.Receipt}
	r := undo.Read(state, noon+2*second)
	undo.Apply(state, &r, noon+2*second)
	undo.Answer(&r, false)
	fmt.Println(other.Verdict.Remaining, undo.Verdict.Remaining)
	// Output: 5 9
}

// An operator credits units to a key, debits more than there is, and resets the key. None of these
// ops of [Store.Adjust] can be denied.
func ExampleOp() {
	rule, err := driver.Definition{Name: "api", Algorithm: driver.TokenBucket, Events: 60, Per: time.Minute}.Compile()
	if err != nil {
		panic(err)
	}
	spend := driver.Charge{Key: "alice", Rule: rule, Cost: 50}
	state, _ := spend.Decide(driver.State{}, noon)
	for _, c := range []driver.Charge{
		{Op: driver.Credit, Cost: 20},
		{Op: driver.Debit, Cost: 45}, // into debt
		{Op: driver.Reset},
	} {
		c.Key, c.Rule = "alice", rule
		r := c.Read(state, noon)
		state = c.Apply(state, &r, noon)
		c.Answer(&r, false)
		fmt.Println(c.Verdict.Remaining, c.Verdict.ResetAfter)
	}
	// Output:
	// 30 30s
	// 0 1m15s
	// 60 0s
}

// A store writes the bytes of a State, and keeps them until the State has no meaning any more.
func ExampleState() {
	rule, err := driver.Definition{Name: "api", Algorithm: driver.TokenBucket, Events: 60, Per: time.Minute}.Compile()
	if err != nil {
		panic(err)
	}
	spend := driver.Charge{Key: "alice", Rule: rule, Cost: 15}
	state, _ := spend.Decide(driver.State{}, noon)

	row, err := state.MarshalBinary()
	fmt.Println(len(row), "bytes", err)
	fmt.Println("expires after", time.Duration(rule.ExpiresAt(state)-noon)*time.Microsecond)

	var read driver.State
	err = read.UnmarshalBinary(row)
	peek := driver.Charge{Key: "alice", Rule: rule, Op: driver.Peek, Cost: 1}
	peek.Decide(read, noon)
	fmt.Println(peek.Verdict.Remaining, "left", err)
	// Output:
	// 11 bytes <nil>
	// expires after 15s
	// 45 left <nil>
}

// A Reading is the meaning of a State: a bucket has a part in use, a log a number of events.
func ExampleReading() {
	for _, algorithm := range []driver.Algorithm{driver.TokenBucket, driver.SlidingLog} {
		rule, err := driver.Definition{Name: "api", Algorithm: algorithm, Events: 60, Per: time.Minute}.Compile()
		if err != nil {
			panic(err)
		}
		spend := driver.Charge{Key: "alice", Rule: rule, Cost: 15}
		state, _ := spend.Decide(driver.State{}, noon)

		c := driver.Charge{Key: "alice", Rule: rule, Cost: 50}
		r := c.Read(state, noon+5*second)
		if rule.Kind.Refills {
			fmt.Println(r.Used.Micros/second, "s until the bucket is full; 50 events fit:", c.Fits(&r))
		} else {
			fmt.Println(r.Count, "events count; 50 more fit:", c.Fits(&r), "- in", r.Retry/second, "s")
		}
	}
	// Output:
	// 10 s until the bucket is full; 50 events fit: true
	// 15 events count; 50 more fit: false - in 55 s
}

// Limits of the same length, such as those of plans, share the states of a rule.
func ExampleCompiled() {
	var first *driver.Compiled
	for _, d := range []driver.Definition{
		{Events: 100, Per: time.Minute},
		{Events: 500, Per: time.Minute, Plan: "pro"},
		{Events: 500, Per: time.Hour},
	} {
		d.Name, d.Algorithm = "api", driver.FixedWindow
		rule, err := d.Compile()
		if err != nil {
			panic(err)
		}
		if first == nil {
			first = rule
		}
		fmt.Println(rule.StateName, rule.ID == first.ID)
	}
	// Output:
	// 60:api true
	// 60:api true
	// 3600:api false
}

// The constants of a bucket are exact: 7 events a minute refill in 60000000/7 microseconds each.
func ExampleConstants() {
	rule, err := driver.Definition{Name: "api", Algorithm: driver.TokenBucket, Events: 7, Per: time.Minute}.Compile()
	if err != nil {
		panic(err)
	}
	c := rule.Constants
	fmt.Println(c.Capacity, c.Unit, c.Full, c.Denominator)
	// Output: 7 {8571428 4} {60000000 0} 7
}

// Compile returns an error for a rule that is invalid or cannot be represented exactly.
func ExampleDefinition() {
	_, err := driver.Definition{Name: "api", Algorithm: driver.TokenBucket, Events: 10, Per: time.Nanosecond}.Compile()
	fmt.Println(err, errors.Is(err, driver.ErrInvalidRule))
	var invalid *driver.RuleError
	if errors.As(err, &invalid) {
		fmt.Println(invalid.Rule, invalid.Field)
	}
	// Output:
	// weir: rule "api": per is not a whole number of microseconds true
	// api per
}

// A store that embeds a Namespace rejects another rule of the same name.
func ExampleNamespace() {
	var names driver.Namespace
	api := driver.Definition{Name: "api", Algorithm: driver.TokenBucket, Events: 10, Per: time.Second}
	fmt.Println(names.Declare(driver.Change{New: []driver.Definition{api}}))
	api.Algorithm = driver.FixedWindow
	err := names.Declare(driver.Change{New: []driver.Definition{api}})
	fmt.Println(errors.Is(err, driver.ErrRuleConflict))
	// Output:
	// <nil>
	// true
}

// slow is a Store over another one, which reports slow decisions. A store over a store passes on the
// definitions of rules, the probes and the facts about it, and names it for package observe.
type slow struct{ driver.Store }

func (s slow) Take(ctx context.Context, charges []driver.Charge) error {
	begin := time.Now()
	err := s.Store.Take(ctx, charges)
	if took := time.Since(begin); took > time.Second {
		slog.WarnContext(ctx, "a slow decision", "rules", len(charges), "took", took)
	}
	return err
}

func (s slow) Declare(changes ...driver.Change) error { return driver.Declare(s.Store, changes...) }

func (s slow) Probe(ctx context.Context, charges []driver.Charge) error {
	return driver.Probe(ctx, s.Store, charges)
}

func (s slow) Describe() driver.Description {
	d := driver.Describe(s.Store)
	d.Behind = map[string]driver.Store{"": s.Store}
	return d
}

// A Store over another one. The example of package storetest is a Store with states of its own.
func ExampleStore() {
	api := core.Must(core.New(slow{memstore.New()}, core.SlidingLog("api", core.PerHour(100))))
	d, err := api.Allow(context.Background(), "alice")
	fmt.Println(d, err)
	// Output: allowed: "api" 99 of 100 left <nil>
}

// figures is a Store with a figure of its own, which the exporters of package observe find.
type figures struct {
	slow
	calls int
}

func (f *figures) Take(ctx context.Context, charges []driver.Charge) error {
	f.calls++ // in a program: an atomic counter
	return f.slow.Take(ctx, charges)
}

func (f *figures) Measures() []driver.Measure {
	return []driver.Measure{{Name: "shop.calls", Help: "Calls of the store.", Unit: "{call}", Total: true, Value: float64(f.calls)}}
}

func ExampleMeasure() {
	store := observe.New(&figures{slow: slow{memstore.New()}})
	api := core.Must(core.New(store, core.SlidingLog("api", core.PerHour(100))))
	_, _ = api.Allow(context.Background(), "alice")
	for _, m := range store.Snapshot().Measures {
		if m.Name == "shop.calls" {
			fmt.Println(m.Name, m.Value)
		}
	}
	// Output: shop.calls 1
}

// printer is an Observer that prints the decisions of each rule.
type printer struct{ slow }

func (p printer) Ask(bool)             {}
func (p printer) Logger() *slog.Logger { return slog.Default() }

func (p printer) Counter(rule, plan string) func(driver.Observation) {
	return func(o driver.Observation) { fmt.Printf("%s %q %v\n", rule, plan, o.Result) }
}

// A Limiter tells its decisions to a Store that is an Observer.
func ExampleObserver() {
	api := core.Must(core.New(printer{slow{memstore.New()}},
		core.SlidingLog("api", core.PerHour(1)).Plan("banned", core.Blocked)))
	for _, plan := range []string{"", "", "banned"} {
		_, _ = api.Plan(plan).Allow(context.Background(), "alice")
	}
	// Output:
	// api "" allowed
	// api "" denied
	// api "banned" blocked
}
