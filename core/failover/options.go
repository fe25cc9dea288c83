package failover

import (
	"slices"
	"time"

	"github.com/weir-go/weir/core/internal/argument"
)

// DefaultDeadline is the deadline of the primary when [Deadline] is not given.
const DefaultDeadline = 100 * time.Millisecond

// An Option changes the Store that New returns. The options are the functions of this package
// that return one.
type Option interface{ argument.Option[config] }

type option = argument.OptionFunc[config]

type config struct {
	deadline  time.Duration
	instances int
	onChange  func(from, to State, cause error)
	answers   map[string]Answer // by the name of the rule
}

// Deadline sets how long the primary may take for one decision; the default is
// [DefaultDeadline]. When it passes, the backup decides. An outage delays a call by at most
// this Deadline. Deadline panics if d is not positive.
func Deadline(d time.Duration) Option {
	if d <= 0 {
		panic("failover: Deadline: it is not positive")
	}
	return option(func(c *config) { c.deadline = d })
}

// Instances divides every limit by n, the number of processes that share the primary, while the
// backup decides: see core.Rule.Divide. The States of such a decision have the divided rule and
// its figures. Without Instances every process enforces the whole limit. Instances panics if n
// is less than 1.
func Instances(n int) Option {
	if n < 1 {
		panic("failover: Instances: n is less than 1")
	}
	return option(func(c *config) { c.instances = n })
}

// FailClosedFor makes [FailClosed] the backup of the rules of these names: without the primary, a
// decision that contains one of them returns a core.ErrFailClosed, which every gate answers with
// 503. A Debit, Credit or Reset of other rules in the same call is done nevertheless.
// [Store.Check] reports names that no rule has.
func FailClosedFor(rules ...string) Option { return answerFor(FailClosed, rules) }

// FailOpenFor makes [FailOpen] the backup of the rules of these names: without the primary, they
// admit every event, and the other rules decide. [Store.Check] reports names that no rule has.
func FailOpenFor(rules ...string) Option { return answerFor(FailOpen, rules) }

// answerFor sets the Answer of rules. It overrides earlier options about the same rule.
func answerFor(a Answer, rules []string) Option {
	rules = slices.Clone(rules)
	return option(func(c *config) {
		if c.answers == nil {
			c.answers = make(map[string]Answer)
		}
		for _, name := range rules {
			c.answers[name] = a
		}
	})
}

// OnChange calls f when the State has changed: one call at a time and in order, on a goroutine of
// its own that holds no lock. If the breaker has opened, cause is the error that opened it;
// otherwise it is nil. f may use the Store, but not close it.
//
// Changes that happen while f runs are reported in one call, from the last reported State to the
// present one; if both are the same, f is not called. A slow f therefore misses short outages,
// which [Stats] counts, and always learns the present State.
func OnChange(f func(from, to State, cause error)) Option {
	return option(func(c *config) { c.onChange = f })
}
