package failover

import (
	"slices"
	"time"

	"github.com/weir-go/weir/internal/argument"
)

// DefaultDeadline is the deadline of the primary when [Deadline] is not given.
const DefaultDeadline = 100 * time.Millisecond

// An Option configures the Store that [New] returns.
type Option interface{ argument.Option[config] }

type option = argument.OptionFunc[config]

type config struct {
	deadline  time.Duration
	processes func() int // nil without Processes
	onChange  func(from, to State, cause error)
	answers   map[string]Answer // by the name of the rule
}

// Deadline sets the time that the primary may take for one decision, by default [DefaultDeadline].
// When d has passed, the backup decides, so an outage delays a call by at most d. Deadline panics
// if d is not positive.
func Deadline(d time.Duration) Option {
	if d <= 0 {
		panic("failover: Deadline: it is not positive")
	}
	return option(func(c *config) { c.deadline = d })
}

// Processes makes the backup enforce every limit divided by the number that f returns, that of the processes which share
// the primary (see core.Rule.Divide), such as the pods of an autoscaler. The decisions of the backup then report the states
// of the divided rules. A cost above the part, but not above the limit, is denied with a RetryAfter of one second, because
// it fits when the primary returns.
//
// Without Processes, the number is that of the processes that have the rule, if the primary counts them, as that of package
// resilient does (driver.Description.Processes). Without any number, the backup of every process enforces the whole limit.
//
// Each call of the backup calls f once, concurrently with others. A number below 1 counts as 1, and one above 16 383 as
// that. If the number changes during an outage, the states of the keys stay: an event is refunded as it was charged, and a
// window admits the rest of the new part. Processes panics if f is nil.
func Processes(f func() int) Option {
	argument.NotNil("failover: Processes", "function", f)
	return option(func(c *config) { c.processes = f })
}

// Instances is [Processes] with a number that does not change. It panics if n is less than 1.
func Instances(n int) Option {
	if n < 1 {
		panic("failover: Instances: n is less than 1")
	}
	return Processes(func() int { return n })
}

// FailClosedFor makes [FailClosed] the backup of the named rules: without the primary, a decision
// that contains one of these rules returns core.ErrFailClosed, and a gate responds with 503. A
// Debit, Credit or Reset of other rules in the same call is executed nevertheless. [Store.Check]
// reports names that no rule has.
func FailClosedFor(rules ...string) Option { return answerFor(FailClosed, rules) }

// FailOpenFor makes [FailOpen] the backup of the named rules: without the primary, these rules
// admit every event, and the other rules decide. [Store.Check] reports names that no rule has.
func FailOpenFor(rules ...string) Option { return answerFor(FailOpen, rules) }

// answerFor sets the Answer of rules. Later options override earlier options.
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

// OnChange makes the Store call f when its [State] has changed, in place of logging the change to slog.Default (see
// [Store.LogTo]). Calls of f are made one at a time and in order, on a separate goroutine that holds no lock. If the breaker has
// opened, cause is the error that opened it; otherwise cause is nil. f may use the Store, but must not close it.
//
// Changes that happen while f runs are reported in one call, from the last reported State to the
// present State. If both are equal, f is not called. A slow f may therefore miss short outages,
// which [Stats] counts, but always gets the present State. OnChange panics if f is nil.
func OnChange(f func(from, to State, cause error)) Option {
	argument.NotNil("failover: OnChange", "function", f)
	return option(func(c *config) { c.onChange = f })
}
