package core

import (
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// Never is the RetryAfter of a cost that can never be admitted.
const Never time.Duration = driver.Never

// A Decision is the answer to an event. It is a value: keep it or copy it freely. The zero
// Decision denies.
type Decision struct {
	Allowed    bool
	RetryAfter time.Duration // denied: the least wait after which the same cost can be admitted; Never if it never can
	Delay      time.Duration // allowed: hold the event this long first (the gate does); zero but for a leaky bucket

	first State   // kept apart, so that one Rule needs no allocation
	rest  []State // from the second on
	n     int
}

// A State is the part of one Rule in a Decision. Rule has the limit that was in force, which for a [Rule.Elastic] may be larger than the one that it was made with.
//
// Window is the span that Remaining belongs to. For windows and logs, no more than
// Remaining can be used within it. For a bucket, which refills all the time, it is the
// time in which Remaining events refill. When nothing remains, Window is the time until
// one event is available. If the Rule denied, Window is RetryAfter.
type State struct {
	Rule       Rule
	Allowed    bool          // by this Rule alone
	Remaining  int           // events that are left now
	RetryAfter time.Duration // not Allowed: the least wait after which this Rule admits the same cost; or Never
	ResetAfter time.Duration // until nothing is used any more
	Window     time.Duration // the effective window, the t of the RateLimit field; see below
	Delay      time.Duration // Allowed: hold the event this long first
	Soft       bool          // Allowed, but beyond the limit itself: see [Rule.Soft]

	// Unknown is set if another Rule denied the event and this one was not asked, as by package
	// denycache. Allowed is set, too, and the numbers are zero and say nothing.
	Unknown bool
}

// Limit is the limit that was in force.
func (s State) Limit() Limit { return s.Rule.Limit() }

// Used is the capacity of the rule less Remaining. Beyond the limit, in debt or under a
// [Rule.Soft], Used stays at the capacity.
func (s State) Used() int { return s.Rule.Capacity() - s.Remaining }

// String is the decision as a text for logs, without the key:
//
//	allowed: "second" 9 of 10 left, "hour" 499 of 500 left
//	allowed after 100ms: "queue" 8 of 10 left
//	denied, retry after 6s: "page" 0 of 10 left
//	denied for ever: "page" 9 of 10 left
//	denied, retry after 6s: "page" 0 of 10 left, "hour" unknown
//	denied, undecided
//
// The last is the zero Decision.
func (d Decision) String() string {
	var b strings.Builder
	b.WriteString(d.verdict())
	for i, s := range d.States() {
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		fmt.Fprintf(&b, "%s%q ", separator, s.Rule.Name())
		if s.Unknown {
			b.WriteString("unknown")
		} else {
			fmt.Fprintf(&b, "%d of %d left", s.Remaining, s.Rule.Capacity())
		}
	}
	return b.String()
}

func (d Decision) verdict() string {
	switch {
	case d.Allowed && d.Delay > 0:
		return "allowed after " + d.Delay.String()
	case d.Allowed:
		return "allowed"
	case d.RetryAfter == Never:
		return "denied for ever"
	case d.n == 0:
		return "denied, undecided"
	}
	return "denied, retry after " + d.RetryAfter.String()
}

// LogValue implements [slog.LogValuer]: a group of "allowed", then "delay" or "retry_after"
// (a duration, or the text "never") where there is one, and "remaining", with the events that
// each rule has left, unless that is unknown.
func (d Decision) LogValue() slog.Value {
	attrs := []slog.Attr{slog.Bool("allowed", d.Allowed)}
	switch {
	case d.Allowed && d.Delay > 0:
		attrs = append(attrs, slog.Duration("delay", d.Delay))
	case !d.Allowed && d.RetryAfter == Never:
		attrs = append(attrs, slog.String("retry_after", "never"))
	case !d.Allowed && d.n > 0:
		attrs = append(attrs, slog.Duration("retry_after", d.RetryAfter))
	}
	remaining := make([]any, 0, d.n)
	for _, s := range d.States() {
		if !s.Unknown {
			remaining = append(remaining, slog.Int(s.Rule.Name(), s.Remaining))
		}
	}
	return slog.GroupValue(append(attrs, slog.Group("remaining", remaining...))...)
}

// Len is the number of States: one for every Rule that was asked.
func (d Decision) Len() int { return d.n }

// State is the i-th State, in the order of the asks and, within one, of the
// Limiter's Rules. It panics if i is out of range.
func (d Decision) State(i int) State {
	if i == 0 && d.n > 0 {
		return d.first
	}
	return d.rest[i-1]
}

// States iterates over the States in order.
func (d Decision) States() iter.Seq2[int, State] {
	return func(yield func(int, State) bool) {
		for i := range d.n {
			if !yield(i, d.State(i)) {
				return
			}
		}
	}
}

// sum makes d, which is zero, the decision about charges of rules. It is filled in place:
// copies of it would take a fifth of the time that a decision in memory takes.
func (d *Decision) sum(charges []driver.Charge, rules []Rule) {
	d.Allowed, d.n = true, len(charges)
	if len(charges) > 1 {
		d.rest = make([]State, len(charges)-1)
	}
	for i := range charges {
		s := &d.first
		if i > 0 {
			s = &d.rest[i-1]
		}
		s.set(&charges[i], rules[i])
		switch {
		case rules[i].d.Shadow:
		case s.Allowed && !s.Unknown:
			d.Delay = max(d.Delay, s.Delay)
		default:
			d.Allowed = false
			d.RetryAfter = max(d.RetryAfter, s.RetryAfter)
		}
	}
	if !d.Allowed {
		d.Delay = 0
	}
}

// set sets s to the Verdict of c, a charge of rule.
func (s *State) set(c *driver.Charge, rule Rule) {
	v := &c.Verdict
	if s.Rule = rule; v.Rule != nil {
		s.Rule = rule.as(v.Rule)
	}
	s.Allowed, s.Unknown, s.Soft, s.Remaining = v.Allowed, v.Unknown, v.Soft, v.Remaining
	s.RetryAfter, s.ResetAfter, s.Window, s.Delay = v.RetryAfter, v.ResetAfter, v.Window, v.Delay
}

// expand gives every ask its State again, after asks were merged: places has the index of
// the charge of each.
func (d *Decision) expand(places []int) {
	rest := make([]State, len(places)-1)
	for i := range rest {
		rest[i] = d.State(places[i+1])
	}
	d.rest, d.n = rest, len(places)
}

// and returns the decision that admits an event if d and o, which both have States, do.
func (d Decision) and(o Decision) Decision {
	rest := slices.Grow(slices.Clone(d.rest), o.n)
	rest = append(append(rest, o.first), o.rest...)
	both := Decision{Allowed: d.Allowed && o.Allowed, RetryAfter: max(d.RetryAfter, o.RetryAfter), first: d.first, rest: rest, n: d.n + o.n}
	if both.Allowed {
		both.Delay = max(d.Delay, o.Delay)
	}
	return both
}

// Soft says whether the event was let through beyond a limit: [State.Soft] of any
// Rule that is enforced.
func (d Decision) Soft() bool {
	for _, s := range d.States() {
		if s.Soft && d.Allowed && !s.Rule.IsShadow() {
			return true
		}
	}
	return false
}

// StateOf is the State of the Rule of that name, the first if there are
// several. It returns false if no such Rule was asked.
func (d Decision) StateOf(name string) (State, bool) {
	for _, s := range d.States() {
		if s.Rule.Name() == name {
			return s, true
		}
	}
	return State{}, false
}
