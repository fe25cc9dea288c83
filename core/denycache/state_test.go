package denycache_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
)

// One rule that denies denies the decision, whoever the others are about: a
// stranger who tries one name after another costs nothing.
func TestOneRuleIsEnough(t *testing.T) {
	b := newBench(t)
	ip := limiter(t, b.cache, core.TokenBucket("ip", core.PerHour(3)))
	user := limiter(t, b.cache, core.SlidingLog("user", core.PerHour(10)), core.FixedWindow("day", core.PerDay(100)))
	both := func(name string) core.Decision {
		d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: ip, Key: "1.2.3.4", Cost: 1}, core.Ask{Limiter: user, Key: name, Cost: 1})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for range 3 {
		both("alice")
	}
	want := both("alice")
	asked := b.behind.Calls()
	got := both("alice")
	for i := range 3 {
		if got.State(i) != want.State(i) && (i > 0 || got.State(i).Allowed) {
			t.Errorf("alice, state %d: %+v, want %+v", i, got.State(i), want.State(i))
		}
	}
	b.clocks.pass(100 * time.Millisecond)
	if d := both("alice"); d.State(1).Remaining != 7 || d.State(1).ResetAfter != time.Hour-100*time.Millisecond {
		t.Errorf("alice, later: %+v", d.State(1))
	}
	for i := range 500 {
		d := both(fmt.Sprint("user", i))
		if d.Allowed || d.Len() != 3 || d.State(1).Remaining != 10 || !d.State(1).Allowed || d.State(2).Remaining != 100 || d.State(2).Rule.Name() != "day" {
			t.Fatalf("a user of whom nothing is known: %+v", d)
		}
	}
	if b.behind.Calls() != asked {
		t.Errorf("%d calls", b.behind.Calls()-asked)
	}
	if s := b.cache.Stats(); s.Keys != 3 {
		t.Errorf("%d are remembered, want the three of the denied decision", s.Keys)
	}
	if d := ask(t, user, "alice", 1); !d.Allowed {
		t.Errorf("alice from elsewhere: %+v", d)
	}
}

// What was known about a rule that does not deny is forgotten when it means nothing
// any more.
func TestWhatIsTooOldToTell(t *testing.T) {
	for _, make := range algorithms {
		b := newBench(t, denycache.MaxAge(age))
		l := limiter(t, b.cache, core.TokenBucket("hour", core.PerHour(3)), make("short", core.Per(10, 100*time.Millisecond)))
		ask(t, l, "k", 3)
		if d := b.here(l, "k", 1); d.State(1).Remaining != 7 || d.State(1).ResetAfter == 0 {
			t.Errorf("%v: 3 of 10 are used: %+v", d.State(1).Rule, d.State(1))
		}
		b.clocks.pass(150 * time.Millisecond)
		if d := b.here(l, "k", 1); d.State(1).Remaining != 10 || d.State(1).ResetAfter != 0 || !d.State(1).Allowed || d.RetryAfter < time.Minute {
			t.Errorf("%v: a period later: %+v", d.State(1).Rule, d.State(1))
		}
	}
}

// What is told of a rule that does not deny any more gets older.
func TestWhatGetsOlder(t *testing.T) {
	b := newBench(t, denycache.MaxAge(age))
	hour, short := core.TokenBucket("hour", core.PerHour(2)), core.SlidingLog("short", core.Per(2, 100*time.Millisecond))
	l := limiter(t, b.cache, hour, short)
	ask(t, l, "k", 1)
	b.clocks.pass(50 * time.Millisecond)
	ask(t, l, "k", 1)
	if d := b.here(l, "k", 1); d.State(0).Allowed || d.State(1).Allowed {
		t.Fatalf("%+v", d)
	}
	b.clocks.pass(20 * time.Millisecond)
	want := core.State{RetryAfter: 30 * time.Millisecond, ResetAfter: 80 * time.Millisecond, Window: 30 * time.Millisecond}
	for range 2 {
		got := b.here(l, "k", 1).State(1)
		if want.Rule = got.Rule; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		b.clocks.pass(40 * time.Millisecond) // the first event has left
		want = core.State{Allowed: true, Remaining: 1, ResetAfter: 40 * time.Millisecond, Window: 40 * time.Millisecond}
	}
}

// The estimate for a cost that was just taken is about the next such cost, and not about the
// last one: it is what the Store would say.
func TestStore_TakeEstimatesTheNextCost(t *testing.T) {
	for _, make := range algorithms {
		b := newBench(t, denycache.MaxAge(age))
		hour, other := core.TokenBucket("hour", core.PerHour(3)), make("other", core.PerHour(4)).Soft(25)
		l := limiter(t, b.cache, hour, other)
		ask(t, l, "k", 3)
		want := ask(t, limiter(t, b.behind, other), "k", 3).State(0)
		if got := b.here(l, "k", 3).State(1); got != want || got.Allowed {
			t.Errorf("%v, 3 of 4 are used, cost 3:\n\tgot  %+v\n\twant %+v", other, got, want)
		}
	}
}

// A dividing store decides by a fourth of every rule.
type dividing struct{ driver.Store }

func (d dividing) Take(ctx context.Context, charges []driver.Charge) error {
	for i := range charges {
		defer func(whole *driver.Compiled) { charges[i].Rule = whole }(charges[i].Rule)
		charges[i].Rule = charges[i].Rule.Divide(4)
	}
	return d.Store.Take(ctx, charges)
}

// A denial by what the Store has made of a rule is a denial by that here, too, and so is what
// is foreseen.
func TestStore_TakeDividedRule(t *testing.T) {
	for _, make := range algorithms {
		for _, used := range []int{4, 5} {
			b := newBench(t, denycache.MaxAge(age))
			b.cache = denycache.New(dividing{b.behind}, denycache.MaxAge(age))
			b.cache.SetClock(b.clocks.localNow)
			rule := make("r", core.PerHour(20))
			l := limiter(t, b.cache, rule)
			for range used {
				b.there(l, "k", 1)
			}
			if used == 4 { // and else it is foreseen
				b.there(l, "k", 2)
			}
			b.clocks.pass(time.Second)
			peek := []driver.Charge{{Key: "k", Rule: rule.Compiled().Divide(4), Op: driver.Peek, Cost: 6 - used}}
			if err := b.behind.Take(t.Context(), peek); err != nil {
				t.Fatal(err)
			}
			got, want := b.here(l, "k", 6-used).State(0), peek[0].Verdict
			if got.Rule.Limit().Events != 5 || got.Remaining != want.Remaining || got.RetryAfter != want.RetryAfter ||
				got.ResetAfter != want.ResetAfter || got.Window != want.Window {
				t.Errorf("%v, %d used:\n\tgot  %+v\n\twant %+v", rule, used, got, want)
			}
		}
	}
}

// More charges than usual, of more rules than usual.
func TestManyCharges(t *testing.T) {
	b := newBench(t)
	var rules []core.Rule
	for i := range 16 {
		rules = append(rules, algorithms[i%len(algorithms)](fmt.Sprint("r", i), core.PerHour(100-i)))
	}
	l := limiter(t, b.cache, rules...)
	ask(t, l, "k", 85)
	want := b.there(l, "k", 1)
	got := b.here(l, "k", 1)
	for i, st := range got.States() {
		if w := want.State(i); st.Allowed != w.Allowed || st.Remaining != w.Remaining || st.Rule != w.Rule {
			t.Errorf("%+v, want %+v", st, w)
		}
	}
}
