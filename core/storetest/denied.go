package storetest

import (
	"context"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// Denied returns a denial by all of rules with this RetryAfter, which may be [core.Never], for tests of code that
// handles denials, such as the function of gate.OnDenied. Without rules, it is that of a rule "limit" of one event
// a minute. Denied panics if core.New returns an error for the rules.
func Denied(retryAfter time.Duration, rules ...core.Rule) core.Decision {
	if len(rules) == 0 {
		rules = []core.Rule{core.FixedWindow("limit", core.PerMinute(1))}
	}
	s := denying(retryAfter)
	d, _ := core.Must(core.New(&s, rules...)).Peek(context.Background(), "key")
	return d
}

// denying is a Store that denies all events, for a time.
type denying time.Duration

func (s *denying) Take(_ context.Context, charges []driver.Charge) error {
	for i := range charges {
		c, wait := &charges[i], time.Duration(*s)
		c.Verdict = driver.Verdict{Rule: c.Rule, RetryAfter: wait, Window: wait, ResetAfter: wait}
	}
	return nil
}

func (s *denying) Adjust(ctx context.Context, charges []driver.Charge) error {
	return s.Take(ctx, charges)
}
