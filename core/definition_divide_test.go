package core_test

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

func TestRule_Divide(t *testing.T) {
	for _, c := range []struct {
		rule core.Rule
		n    int
		want string
	}{
		{core.TokenBucket("r", core.PerSecond(10)), 1, `token_bucket "r" 10/s`},
		{core.TokenBucket("r", core.PerSecond(10)), 0, `token_bucket "r" 10/s`},
		{core.TokenBucket("r", core.PerSecond(10)), -3, `token_bucket "r" 10/s`},
		{core.TokenBucket("r", core.PerSecond(10)), 5, `token_bucket "r" 2/s`},
		{core.TokenBucket("r", core.PerSecond(10)), 3, `token_bucket "r" 10/3s burst 3`},
		{core.TokenBucket("r", core.PerSecond(10)), 4, `token_bucket "r" 5/2s burst 2`},
		{core.LeakyBucket("r", core.PerSecond(1).WithBurst(100)), 8, `leaky_bucket "r" 1/8s burst 12`},
		{core.TokenBucket("r", core.PerMinute(5)), 20, `token_bucket "r" 1/4m`},
		{core.FixedWindow("r", core.PerMinute(100)), 8, `fixed_window "r" 12/m`},
		{core.SlidingLog("r", core.PerMinute(5)), 8, `sliding_log "r" 1/m`},
		{core.SlidingWindow("r", core.PerHour(500)).SubWindows(7).Soft(10).Shadow(), 2, `sliding_window "r" 250/h in 7 sub-windows soft 10% shadow`},
		{core.TokenBucket("r", core.PerSecond(10)).Elastic(func() float64 { return 1 }, 3), 2, `token_bucket "r" 5/s elastic up to 3`},
		{core.Quota("r", core.Monthly(100)).Rollover(50).Plan("pro", core.Monthly(7)), 8, `quota "r" 12/month rollover 6`},
		{core.Quota("r", core.Monthly(100)).Rollover(5), 8, `quota "r" 12/month`},
		// The exact part would have a period of centuries, which is invalid.
		{core.TokenBucket("r", core.Per(1, 50*365*24*time.Hour)), 4, `token_bucket "r" 1/18250d burst 1`},
		{core.TokenBucket("r", core.Per(1000, 99*365*24*time.Hour).WithBurst(1)), math.MaxInt / 2, `token_bucket "r" 1/36135d burst 1`},
		{core.TokenBucket("r", core.Per(7, 99*365*24*time.Hour).WithBurst(7)), math.MaxInt, `token_bucket "r" 1/36135d burst 1`},
	} {
		got := c.rule.Divide(c.n)
		switch compiled := testkit.Compiled(got); {
		case got.String() != c.want:
			t.Errorf("1/%d of %v: got %v, want %s", c.n, c.rule, got, c.want)
		case compiled == nil:
			t.Errorf("1/%d of %v: got the invalid rule %v", c.n, c.rule, got)
		case compiled.ID != testkit.Compiled(c.rule).ID:
			t.Errorf("1/%d of %v: got another ID than that of the whole", c.n, c.rule)
		}
	}
	for _, invalid := range []core.Rule{{}, core.TokenBucket("", core.PerSecond(10))} {
		if got := invalid.Divide(2); got != invalid {
			t.Errorf("got %v, want the invalid rule %v itself", got, invalid)
		}
	}
}

// The limit of each plan is divided, and keeps its length. A plan that is added to a part has a
// length of its own.
func TestRule_Divide_Plans(t *testing.T) {
	whole := core.TokenBucket("r", core.PerMinute(10)).Plan("hour", core.PerHour(500)).Plan("staff", core.Unlimited)
	blocked := core.TokenBucket("r", core.Blocked).Plan("hour", core.PerHour(500))
	for _, c := range []struct {
		rule, lengths core.Rule
		plan, want    string
	}{
		{whole.Divide(3), whole, "", `token_bucket "r" 10/3m burst 3`},
		{whole.Divide(3), whole, "hour", `token_bucket "r" 500/3h burst 166 plan "hour"`},
		{whole.Divide(3), whole, "other", `token_bucket "r" 10/3m burst 3 plan "unknown"`},
		{whole.Divide(3), whole, "staff", `token_bucket "r" unlimited plan "staff"`},
		{whole.Soft(50).Divide(2).Shadow(), whole.Soft(50), "hour", `token_bucket "r" 250/h soft 50% shadow plan "hour"`},
		{whole.Divide(3).Plan("hour", core.PerHour(20)), whole, "hour", `token_bucket "r" 20/h plan "hour"`},
		{blocked.Divide(2), blocked, "", `token_bucket "r" blocked`},
		{blocked.Divide(2), blocked, "hour", `token_bucket "r" 250/h plan "hour"`},
		{blocked.Divide(0), blocked, "hour", `token_bucket "r" 500/h plan "hour"`},
	} {
		of := func(r core.Rule) core.Rule { return testkit.Limiter(t, memstore.New(), r).Plan(c.plan).Rules()[0] }
		got, whole := of(c.rule), of(c.lengths)
		if got.String() != c.want {
			t.Errorf("got %v, want %s", got, c.want)
		}
		if testkit.Compiled(got) != nil && testkit.Compiled(got).ID != testkit.Compiled(whole).ID {
			t.Errorf("%v: got the states %s, want those of %v", got, testkit.Compiled(got).StateName, whole)
		}
	}
}

// A Store may apply a part of a rule, and the State contains the part, which is a valid rule.
func TestState_Rule_Part(t *testing.T) {
	var store storetest.Fake
	store.Set(func(ctx context.Context, charges []driver.Charge, next storetest.Call) error {
		err := next(ctx, charges)
		charges[0].Verdict.Rule = charges[0].Rule.Divide(2)
		return err
	})
	l := testkit.Limiter(t, &store, core.TokenBucket("r", core.PerMinute(8)).Plan("pro", core.PerMinute(80))).Plan("pro")
	for _, want := range []string{`token_bucket "r" 40/m plan "pro"`, `token_bucket "r" 20/m plan "pro"`} {
		rule := testkit.Allow(t, l, "k").State(0).Rule
		if again := testkit.Allow(t, l, "k").State(0).Rule; rule.String() != want || again != rule {
			t.Errorf("got %v and %v, want %s twice, the same Rule", rule, again, want)
		}
		l = testkit.Limiter(t, &store, rule)
	}
}

// The parts together admit no more than the whole, except that each part admits at least one event,
// and less than n events fewer.
func TestRule_Divide_PartsAddUp(t *testing.T) {
	testkit.WithoutRace(t)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		limit := core.Limit{Events: 1 + rng.IntN(1<<rng.IntN(30)), Per: time.Duration(1+rng.IntN(1<<rng.IntN(30))) * time.Microsecond}
		n := 1 + rng.IntN(1<<rng.IntN(12))
		bucket := rng.IntN(2) == 0
		rule := core.FixedWindow("r", limit)
		if bucket {
			limit.Burst = rng.IntN(1 << rng.IntN(20))
			rule = core.TokenBucket("r", limit)
		}
		if testkit.Compiled(rule) == nil {
			continue
		}
		part := rule.Divide(n)
		parts := fmt.Sprintf("%d times %v, of %v", n, part, rule)
		sum, whole := n*part.Capacity(), rule.Capacity()
		if sum > max(whole, n) || whole-sum >= n {
			t.Fatalf("%s: got a capacity of %d, want about %d", parts, sum, whole)
		}
		switch got := part.Limit(); {
		case bucket && rate(got, n).Cmp(rate(limit, 1)) != 0:
			t.Fatalf("%s: got another rate", parts)
		case !bucket && got.Per != limit.Per:
			t.Fatalf("%s: got another window", parts)
		}
	}
}

// rate is n times the events of l in a nanosecond.
func rate(l core.Limit, n int) *big.Rat {
	r := big.NewRat(int64(l.Events), int64(l.Per))
	return r.Mul(r, big.NewRat(int64(n), 1))
}

// The parts of limits of one length have one state and fill up in the same time, even if their
// bursts are rounded. The parts of another length keep a state of their own.
func TestRule_Divide_LengthsOfPlans(t *testing.T) {
	rule := core.TokenBucket("r", core.PerMinute(10)).Plan("pro", core.PerMinute(35)).Plan("longer", core.PerHour(100)).
		Plan("staff", core.Unlimited).Divide(4).Shadow()
	l := core.Must(core.New(memstore.New(), rule))
	part := func(plan string) core.Rule { return l.Plan(plan).Rules()[0] }
	for plan, want := range map[string]string{
		"":        `token_bucket "r" 5/2m burst 2 shadow`,
		"pro":     `token_bucket "r" 35/4m burst 8 shadow plan "pro"`,
		"longer":  `token_bucket "r" 25/h shadow plan "longer"`,
		"staff":   `token_bucket "r" unlimited shadow plan "staff"`,
		"another": `token_bucket "r" 5/2m burst 2 shadow plan "unknown"`,
	} {
		if got := part(plan).String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for plan, length := range map[string]time.Duration{"": time.Minute, "pro": time.Minute, "longer": time.Hour, "another": time.Minute} {
		c := testkit.Compiled(part(plan))
		if full := time.Duration(c.Constants.Full.Micros) * time.Microsecond; full != length || c.StateName != fmt.Sprintf("%.0f:r", length.Seconds()) {
			t.Errorf("plan %q: got the state %s and %v, want %v", plan, c.StateName, full, length)
		}
	}
}
