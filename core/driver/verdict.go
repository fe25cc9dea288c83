package driver

import "time"

// A Verdict is the result of one charge. Package core copies it into a core.State.
type Verdict struct {
	// Rule is the rule that decided: the rule of the charge, or a fraction of it ([Compiled.Divide]).
	Rule *Compiled

	// Done says that an op of Adjust was executed. After an error, it tells these charges from those of which that is not
	// known. It is false for a Spend and a Peek.
	Done bool

	Allowed    bool          // by this rule, regardless of the other rules
	Unknown    bool          // not evaluated, because another rule denied: Allowed is set, Rule may be nil, the rest is zero
	Soft       bool          // allowed, but beyond the limit itself
	Found      bool          // Reset: something was in use before; Renew: the place had not lapsed
	Period     int32         // of a Quota: the length of the present period in seconds, rounded down
	Remaining  int           // the remaining events of the limit
	RetryAfter time.Duration // denied: the least wait until the same cost fits, or Never
	ResetAfter time.Duration // the time until nothing is in use
	Window     time.Duration // the period that Remaining refers to: see core.State
	Delay      time.Duration // allowed: delay the event this long
}

// remain sets Remaining and Soft. left is the number of events that remain of the limit, without
// the extra events of a soft limit. It is negative if extra events are in use.
func (v *Verdict) remain(left, cost int64, spent bool) {
	v.Remaining = int(max(0, left))
	v.Soft = v.Allowed && (left < 0 || !spent && left < cost)
}

func duration(microseconds int64) time.Duration {
	return time.Duration(microseconds) * time.Microsecond
}
