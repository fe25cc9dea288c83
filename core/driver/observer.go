package driver

import (
	"fmt"
	"log/slog"
	"time"
)

// An Observer is a Store that counts the decisions of the limiters on it, like that of package
// observe. Package core tells it every decision, also those without a call of the Store, such as
// about a blocked key. core.New finds out whether its Store is an Observer. All methods are called
// concurrently, and must return quickly.
type Observer interface {
	Store
	// Counter returns the function that counts the decisions of a rule in a plan. Package core keeps it for
	// the rule.
	Counter(rule, plan string) func(Observation)
	// Ask counts a decision that is not an event: a Peek, or an attempt of a Wait or of a gate.
	Ask(peek bool)
	// Logger returns the log for warnings of limiters.
	Logger() *slog.Logger
}

// An Observation is the part of a decision that belongs to one rule.
type Observation struct {
	Key        string
	Result     Result        // of the rule; zero if its core.State is Unknown
	Decision   Result        // of the whole decision, if it is counted for this rule; otherwise zero
	RetryAfter time.Duration // of the rule
	Remaining  int           // the events that are left of Capacity, if that is not zero
	Capacity   int           // the limit of the rule: see core.Rule.Capacity; zero if it is not known or has no number
}

// A Result says whether a rule, or a whole decision, admits an event, and how.
type Result uint8

// The results. The Result of a whole decision is never ShadowDenied. The zero Result is that of a rule that was not
// evaluated, because a cached denial or a blocked rule had denied the event.
const (
	Allowed      Result = iota + 1
	Soft                // allowed beyond the limit itself
	Denied              // RetryAfter is finite
	NeverAllowed        // denied, because the cost is above the capacity
	Blocked             // denied, because the limit is core.Blocked
	Banned              // denied, because a denial has banned the key: see core.Spec.BlockFor
	ShadowDenied        // a shadow rule would have denied
	Canceled            // the context ended before the decision
	Failed              // the Store could not decide
)

// String returns the text for metrics: "allowed", "soft", "denied", "never", "blocked",
// "banned", "shadow_denied", "canceled" or "error", and "unknown" for the zero Result.
func (r Result) String() string {
	if r <= Failed {
		return [...]string{"unknown", "allowed", "soft", "denied", "never", "blocked", "banned", "shadow_denied", "canceled", "error"}[r]
	}
	return fmt.Sprintf("driver.Result(%d)", int(r))
}

// A Measure is a figure of a store, which the method Measures of the store returns: see Measurer of package observe.
type Measure struct {
	Name  string // for metrics, such as "weir.redis.round_trips"
	Help  string // one sentence
	Unit  string // in the notation of UCUM, as OpenTelemetry uses it: "s", "By", "{key}"
	Total bool   // a count since the store was made; otherwise a present value
	Value float64
}
