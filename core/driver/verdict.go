package driver

import "time"

// A Verdict is the answer of a rule to a charge. Package core copies it into a core.State.
type Verdict struct {
	// Rule is the rule that decided: that of the charge, or a part of it (see [Compiled.Divide]).
	Rule *Compiled

	Allowed    bool          // by this rule, whatever the others answer
	Unknown    bool          // not evaluated, because another rule denied: Allowed is set, Rule may be nil, the rest is zero
	Soft       bool          // allowed, but beyond the limit itself
	Found      bool          // Reset: something was in use before
	Remaining  int           // the remaining events of the limit
	RetryAfter time.Duration // denied: the least wait until the same cost fits, or Never
	ResetAfter time.Duration // the time until nothing is in use
	Window     time.Duration // the span to which Remaining belongs: see core.State
	Delay      time.Duration // allowed: delay the event this long
}

// remain sets Remaining and Soft. left is the number of events that are left of the limit itself;
// below zero, events of a soft limit are in use.
func (v *Verdict) remain(left, cost int64, spent bool) {
	v.Remaining = int(max(0, left))
	v.Soft = v.Allowed && (left < 0 || !spent && left < cost)
}

func duration(microseconds int64) time.Duration {
	return time.Duration(microseconds) * time.Microsecond
}
