package driver

import "slices"

// An Algorithm defines how a rule counts events. The zero Algorithm is invalid.
type Algorithm uint8

// The algorithms. CONTRIBUTING.md lists the files that a new algorithm needs.
const (
	TokenBucket Algorithm = iota + 1
	SlidingLog
	LeakyBucket
	FixedWindow
	SlidingWindow
	InFlight
	Quota
	Pause
)

// String returns "token_bucket", "leaky_bucket", "fixed_window", "sliding_log", "sliding_window",
// "in_flight", "quota", "pause", or "none" for an invalid Algorithm.
func (a Algorithm) String() string { return a.kind().Name }

// A Kind contains the facts about a rule that its callers ask for. There is one for each algorithm. [Definition.Kind]
// returns it. The fields must not be changed. Those of an invalid Definition are zero, except for Name.
type Kind struct {
	Name string // see Algorithm.String

	// Properties are the properties of a rule that have a meaning for it, apart from those that all rules have: see
	// [Kind.Check].
	Properties []string

	// Facts about the rules. A rule with none of Windows, Refills, Holds and Closes keeps the times of its events, each of
	// which expires on its own.

	Refills  bool // a bucket: the part in use goes back at a constant rate, so that its Verdict at any time can be computed
	Delays   bool // an admitted event may have a Delay, and MaxDelay has a meaning
	Windows  bool // all events expire together, at the end of a window
	Calendar bool // the windows are periods of the calendar: see [Compiled.During]
	Holds    bool // an event takes places until it ends: it needs a Reservation, and has no Debit or Credit
	Closes   bool // the rule is open, or closed for a time by a Debit: it has no limit, and events take nothing
	Covers   bool // a denial of one cost is one of every larger cost, with the same RetryAfter unless that can be computed
	Leases   bool // a process may take many events from the Store at once, and hand them out later
}

// properties are the properties that not all rules have, as they are called in a [RuleError], in the order of checks. Package
// driver does not know the last ones.
var properties = [...]string{
	"plan", "limit", "per", "burst", "soft", "headroom", "from first", "sub-windows", "hold", "by cost",
	"rollover", "block for", "max hold", "location", "anchor", "timezone", "elastic", "candidate",
}

// limited are the properties of all rules with a limit, and counting those of rules whose events count for a time.
var (
	limited  = []string{"plan", "limit", "soft", "headroom", "elastic", "candidate"}
	counting = slices.Concat(limited, []string{"per", "block for"})
)

func and(more ...string) []string { return slices.Concat(counting, more) }

var kinds = [...]Kind{
	{Name: "none"},
	TokenBucket:   {Name: "token_bucket", Properties: and("burst"), Refills: true, Covers: true, Leases: true},
	SlidingLog:    {Name: "sliding_log", Properties: counting},
	LeakyBucket:   {Name: "leaky_bucket", Properties: and("burst"), Refills: true, Covers: true, Delays: true},
	FixedWindow:   {Name: "fixed_window", Properties: and("from first"), Windows: true, Covers: true, Leases: true},
	SlidingWindow: {Name: "sliding_window", Properties: and("sub-windows")},
	InFlight:      {Name: "in_flight", Properties: slices.Concat(limited, []string{"hold", "by cost", "max hold"}), Holds: true},
	Quota:         {Name: "quota", Properties: and("rollover", "location", "anchor", "timezone"), Windows: true, Covers: true, Calendar: true},
	Pause:         {Name: "pause", Closes: true, Covers: true},
}

// Kind returns the row of d in the table of kinds.
func (d *Definition) Kind() *Kind { return d.Algorithm.kind() }

func (a Algorithm) kind() *Kind {
	if int(a) >= len(kinds) {
		a = 0
	}
	return &kinds[a]
}

// Check returns a *[RuleError] if a rule with a name has a property that has no meaning for rules of k. has reports of each
// property whether the rule has it. In the words of messages, they are "plan", "limit", "per" (a period), "burst" (other than
// the number of events), "soft", "headroom", "from first", "sub-windows", "hold", "by cost", "rollover", and those that stores need not
// know: "block for", "max hold", "location", "anchor", "timezone", "elastic" and "candidate".
func (k *Kind) Check(rule string, has func(property string) bool) error {
	for _, p := range properties {
		if has(p) && !k.has(p) {
			return &RuleError{Rule: rule, Field: p, Reason: "has no meaning for " + k.Name, Category: ErrInvalidRule}
		}
	}
	return nil
}

func (k *Kind) has(property string) bool { return slices.Contains(k.Properties, property) }
