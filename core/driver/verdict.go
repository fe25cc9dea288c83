package driver

import "time"

// A Verdict is the answer of a rule to a charge. Package core copies it into a core.State.
type Verdict struct {
	// Rule is the rule that decided: that of the charge, or a part of it (see [Compiled.Divide]).
	Rule *Compiled

	Allowed    bool          // by this rule, whatever the others answer
	Unknown    bool          // another rule denied, and this one was not evaluated: Allowed is set, Rule may be nil, the other fields are zero
	Soft       bool          // allowed, but beyond the limit itself
	Found      bool          // Reset: something was in use before
	Remaining  int           // the remaining events of the limit
	RetryAfter time.Duration // denied: the least wait after which the same cost fits, or Never
	ResetAfter time.Duration // until nothing is in use any more
	Window     time.Duration // the span to which Remaining belongs
	Delay      time.Duration // allowed: hold the event this long, at its place in the queue
}

// A verdict is the answer of an algorithm, before soft limits. Spans are in microseconds.
type verdict struct {
	allowed   bool
	remaining int64 // of the capacity, after the cost if that was taken
	retry     int64 // denied: the least wait after which the same cost fits, or Never
	reset     int64 // until nothing is used any more
	delay     int64 // allowed: hold the event this long
	window    int64 // the span within which no more than remaining can be used
}

// set fills in v with the answer of rule to an event of cost that may be delayed for maxDelay,
// given r. spent reports whether the cost was charged after r was read.
func (v *Verdict) set(rule *Compiled, r *Reading, cost, maxDelay int64, spent bool) {
	var u verdict
	rule.verdict(&u, r, cost, maxDelay, spent)
	v.Rule, v.Allowed, v.Unknown, v.Soft, v.Found = rule, u.allowed, false, false, false
	if extra := rule.constants.Extra; extra != 0 {
		u.remaining -= extra
		v.Soft = u.allowed && (u.remaining < 0 || !spent && u.remaining < cost)
		u.remaining = max(0, u.remaining)
	}
	v.Remaining = int(u.remaining)
	v.RetryAfter, v.ResetAfter, v.Window, v.Delay = duration(u.retry), duration(u.reset), duration(u.window), duration(u.delay)
}

// duration converts microseconds; Never stays Never.
func duration(us int64) time.Duration {
	if us == Never {
		return Never
	}
	return time.Duration(us) * time.Microsecond
}
