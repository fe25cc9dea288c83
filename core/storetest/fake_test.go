package storetest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

func TestRun_Fake(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		testkit.WithoutRace(t, testkit.SlowCases...)
		var clock storetest.Clock
		return clock.Harness(&storetest.Fake{Clock: clock.Micros})
	})
}

var hour = core.TokenBucket("hour", core.PerHour(10))

func TestFake_Set(t *testing.T) {
	err1, err2 := errors.New("1"), errors.New("2")
	closed := make(chan struct{})
	close(closed)
	double := func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		charges[0].Cost *= 2
		return next(ctx, charges)
	}
	for _, c := range []struct {
		name  string
		hooks []storetest.Hook
		err   error
		took  time.Duration
		used  int
	}{
		{"no hook", nil, nil, 0, 1},
		{"delay", []storetest.Hook{storetest.Delay(time.Second, time.Minute)}, nil, 61 * time.Second, 1},
		{"delay, ctx ends before the decision", []storetest.Hook{storetest.Delay(2*time.Hour, 0)}, context.DeadlineExceeded, time.Hour, 0},
		{"delay, ctx ends after the decision", []storetest.Hook{storetest.Delay(0, 2*time.Hour)}, context.DeadlineExceeded, time.Hour, 1},
		{"block", []storetest.Hook{storetest.Block(nil)}, context.DeadlineExceeded, time.Hour, 0},
		{"block until", []storetest.Hook{storetest.Block(closed)}, nil, 0, 1},
		{"fail", []storetest.Hook{storetest.Fail(err1)}, err1, 0, 0},
		{"lose", []storetest.Hook{storetest.Lose(err1)}, err1, 0, 1},
		{"delay and fail", []storetest.Hook{storetest.Delay(time.Second, time.Minute), storetest.Fail(err1)}, err1, time.Second, 0},
		{"fail first", []storetest.Hook{storetest.Fail(err1), storetest.Fail(err2)}, err1, 0, 0},
		{"lose an error", []storetest.Hook{storetest.Lose(err1), storetest.Fail(err2)}, err2, 0, 0},
		{"own, twice", []storetest.Hook{double, double}, nil, 0, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				day := core.SlidingLog("day", core.PerDay(10))
				f := &storetest.Fake{Store: memstore.New()}
				f.Set(storetest.Fail(err1), storetest.Fail(err2))
				f.Set(c.hooks...)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				begun := time.Now()
				err := f.Take(ctx, []driver.Charge{{Key: "k", Rule: testkit.Compiled(day), Cost: 1}})
				if took := time.Since(begun); err != c.err || took != c.took {
					t.Errorf("got %v after %v, want %v after %v", err, took, c.err, c.took)
				}
				f.Set()
				if got := testkit.Used(t, testkit.Limiter(t, f, day), "k")[0]; got != c.used {
					t.Errorf("got %d events in use, want %d", got, c.used)
				}
			})
		})
	}
}

func TestFake_Counts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f storetest.Fake
		l := testkit.Limiter(t, &f, hour, core.SlidingLog("log", core.PerHour(5)))
		counts := func(when string, want ...int) {
			t.Helper()
			got := []int{f.Calls(), f.Active(), f.Charges(driver.Spend), f.Charges(driver.Peek), f.Charges(driver.Reset)}
			if !slices.Equal(got, want) {
				t.Fatalf("%s: got calls, active calls, Spends, Peeks and Resets %v, want %v", when, got, want)
			}
		}
		testkit.Allow(t, l, "k")
		testkit.Peek(t, l, "k")
		counts("two calls", 2, 0, 2, 2, 0)
		until := make(chan struct{})
		f.Set(storetest.Block(until))
		go l.Allow(t.Context(), "k")
		go l.Reset(t.Context(), "k")
		synctest.Wait()
		counts("two more are blocked", 4, 2, 4, 2, 2)
		close(until)
		synctest.Wait()
		counts("all have returned", 4, 0, 4, 2, 2)
	})
}

func TestFake_Probe(t *testing.T) {
	errHook, errProbe := errors.New("hook"), errors.New("probe")
	fails := func(context.Context, []driver.Charge) error { return errProbe }
	prober := &storetest.Fake{OnProbe: fails}
	for _, c := range []struct {
		name     string
		fake     *storetest.Fake
		hook     storetest.Hook
		err      error
		calls    int
		answered bool
	}{
		{"by Take", &storetest.Fake{Store: memstore.New()}, nil, nil, 1, true},
		{"by a hook", &storetest.Fake{}, storetest.Fail(errHook), errHook, 1, false},
		{"by the Store", &storetest.Fake{Store: prober}, storetest.Delay(0, 0), errProbe, 1, false},
		{"by a hook over a Prober", &storetest.Fake{Store: prober}, storetest.Fail(errHook), errHook, 1, false},
		{"by OnProbe", &storetest.Fake{OnProbe: fails}, storetest.Fail(errHook), errProbe, 0, false},
	} {
		if c.hook != nil {
			c.fake.Set(c.hook)
		}
		charges := []driver.Charge{{Key: "k", Rule: testkit.Compiled(hour), Op: driver.Peek, Cost: 1}}
		err := driver.Probe(t.Context(), c.fake, charges)
		if err != c.err || c.fake.Calls() != c.calls || charges[0].Verdict.Allowed != c.answered {
			t.Errorf("%s: got error %v, %d calls, Verdict %+v; want error %v, %d calls, Allowed %v",
				c.name, err, c.fake.Calls(), charges[0].Verdict, c.err, c.calls, c.answered)
		}
	}
}

func TestFake_Declare(t *testing.T) {
	other := core.TokenBucket("hour", core.PerHour(11))
	for _, c := range []struct {
		name string
		over driver.Store
		want error
	}{
		{"own states", nil, nil},
		{"a Declarer", memstore.New(), core.ErrRuleConflict},
	} {
		f := &storetest.Fake{Store: c.over}
		testkit.Limiter(t, f, hour)
		if _, err := core.New(f, other); !errors.Is(err, c.want) {
			t.Errorf("%s: two rules of one name: got %v, want %v", c.name, err, c.want)
		}
	}
}

func TestFake_WithDeadline(t *testing.T) {
	var f storetest.Fake
	if d := driver.Describe(&f); d.Deadline != 0 {
		t.Errorf("got %+v for a Fake without WithDeadline", d)
	}
	s := f.WithDeadline(time.Minute)
	if d := driver.Describe(s); d.Deadline != time.Minute {
		t.Errorf("got %+v, want a Deadline of a minute", d)
	}
	testkit.Allow(t, testkit.Limiter(t, s, hour), "k")
	if f.Calls() != 1 {
		t.Errorf("got %d calls of the Fake, want 1", f.Calls())
	}
}

func TestFake_Forget(t *testing.T) {
	var f storetest.Fake
	l := testkit.Limiter(t, &f, hour)
	testkit.Admit(t, l, "a", 3)
	testkit.Admit(t, l, "b", 3)
	f.Forget("a")
	for key, want := range map[string]int{"a": 10, "b": 7} {
		if got := testkit.Left(t, l, key); got != want {
			t.Errorf("key %s: got Remaining %d, want %d", key, got, want)
		}
	}
}

func TestFake_InvalidCharge(t *testing.T) {
	rule, pause, take, adjust := testkit.Compiled(hour), testkit.Compiled(core.Pause("pause")), (*storetest.Fake).Take, (*storetest.Fake).Adjust
	inFlight, err := driver.Definition{Name: "jobs", Algorithm: driver.InFlight, Events: 2, Hold: time.Minute}.Compile()
	testkit.Must(t, err)
	byCost, err := driver.Definition{Name: "tokens", Algorithm: driver.InFlight, Events: 20, Hold: time.Minute, ByCost: true}.Compile()
	testkit.Must(t, err)
	for name, c := range map[string]struct {
		call    func(*storetest.Fake, context.Context, []driver.Charge) error
		charges []driver.Charge
	}{
		"none":              {take, nil},
		"no key":            {take, []driver.Charge{{Rule: rule, Cost: 1}}},
		"no rule":           {take, []driver.Charge{{Key: "k", Cost: 1}}},
		"no cost":           {take, []driver.Charge{{Key: "k", Rule: rule}}},
		"op of Adjust":      {take, []driver.Charge{{Key: "k", Rule: rule, Cost: 1, Op: driver.Debit}}},
		"op of Take":        {adjust, []driver.Charge{{Key: "k", Rule: rule, Cost: 1}}},
		"unknown op":        {adjust, []driver.Charge{{Key: "k", Rule: rule, Cost: 1, Op: driver.Renew + 1}}},
		"renew of a bucket": {adjust, []driver.Charge{{Key: "k", Rule: rule, Cost: 1, Op: driver.Renew}}},
		"debit of a place":  {adjust, []driver.Charge{{Key: "k", Rule: inFlight, Cost: 1, Op: driver.Debit}}},
		"credit of a place": {adjust, []driver.Charge{{Key: "k", Rule: inFlight, Cost: 1, Op: driver.Credit}}},
		"debit by cost":     {adjust, []driver.Charge{{Key: "k", Rule: byCost, Cost: 1, Op: driver.Debit}}},
		"credit by cost":    {adjust, []driver.Charge{{Key: "k", Rule: byCost, Cost: 2, Op: driver.Credit}}},
		"by cost of zero":   {take, []driver.Charge{{Key: "k", Rule: byCost}}},
		"at most beside":    {take, []driver.Charge{{Key: "k", Rule: byCost, Cost: 3, AtMost: true}, {Key: "k", Rule: inFlight, Cost: 3, AtMost: true}}},
		"undo of two":       {adjust, []driver.Charge{{Key: "k", Rule: inFlight, Cost: 2, Op: driver.Undo}}},
		"two places":        {take, []driver.Charge{{Key: "k", Rule: inFlight, Cost: 2}}},
		"places at most":    {take, []driver.Charge{{Key: "k", Rule: inFlight, Cost: 1, AtMost: true}}},
		"negative delay":    {take, []driver.Charge{{Key: "k", Rule: rule, Cost: 1, MaxDelay: -1}}},
		"renew of a pause":  {adjust, []driver.Charge{{Key: "k", Rule: pause, Cost: 1, Op: driver.Renew}}},
		"a pause too long":  {adjust, []driver.Charge{{Key: "k", Rule: pause, Cost: 1, Op: driver.Debit, Pause: 366*24*time.Hour + 1}}},
		"a pause below 0":   {adjust, []driver.Charge{{Key: "k", Rule: pause, Cost: 1, Op: driver.Debit, Pause: -1}}},
		"same key and rule": {take, []driver.Charge{{Key: "k", Rule: rule, Cost: 1}, {Key: "k", Rule: rule, Cost: 1}}},
	} {
		if err := c.call(new(storetest.Fake), t.Context(), c.charges); !errors.Is(err, driver.ErrInvalidCharge) {
			t.Errorf("%s: got %v, want %v", name, err, driver.ErrInvalidCharge)
		}
	}
}

// A charge of an in-flight rule by cost may have any cost, and AtMost.
func TestFake_ByCost(t *testing.T) {
	rule, err := driver.Definition{Name: "tokens", Algorithm: driver.InFlight, Events: 20, Hold: time.Minute, ByCost: true}.Compile()
	testkit.Must(t, err)
	var f storetest.Fake
	var last driver.Receipt
	for i, c := range []struct {
		driver.Charge
		cost, left int
	}{
		{driver.Charge{Cost: 12}, 12, 8},
		{driver.Charge{Cost: 9, AtMost: true}, 8, 0},
		{driver.Charge{Cost: 9, Op: driver.Renew}, 9, 0},
		{driver.Charge{Cost: 1, Op: driver.Undo}, 1, 8},
		{driver.Charge{Cost: 8, Op: driver.Peek}, 8, 8},
		{driver.Charge{Cost: 2, Op: driver.Reset}, 2, 20},
	} {
		if c.Key, c.Rule = "k", rule; c.Op >= driver.Undo {
			c.Receipt = last
		}
		charges := []driver.Charge{c.Charge}
		testkit.Must(t, storetest.Do(t.Context(), &f, charges))
		last = charges[0].Receipt
		if v := charges[0].Verdict; !v.Allowed || charges[0].Cost != c.cost || v.Remaining != c.left {
			t.Errorf("call %d: got the cost %d and %+v, want %d and Remaining %d", i, charges[0].Cost, v, c.cost, c.left)
		}
	}
}
