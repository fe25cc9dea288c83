package core

import (
	"fmt"
	"iter"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/period"
)

// Never is the RetryAfter of a cost that can never be admitted.
const Never time.Duration = driver.Never

// A Decision allows or denies an event. It is a value: copy it freely. The zero Decision denies.
type Decision struct {
	Allowed    bool
	RetryAfter time.Duration // denied: the least wait until the same cost can be admitted, or Never; or an estimate, see State
	Delay      time.Duration // allowed: delay the event this long (middlewares do it); zero except for leaky buckets

	first State   // so that a decision about one Rule allocates nothing
	rest  []State // the second State and all after it
	n     int
}

// A State is the part of a Decision that belongs to one Rule. Its field Rule contains the limit
// that was in force: that of the plan or [Limiter.Variant], and for a [Rule.Elastic] possibly a
// larger one. If the limit is [Unlimited], Remaining is [math.MaxInt] and the durations are zero. If
// it is [Blocked], Remaining is zero, and RetryAfter and Window are [Never]. If that block ends, as
// those of package rules can, RetryAfter, ResetAfter and Window are the time until its end.
//
// Window is the period that Remaining refers to. A window or log admits at most Remaining more events
// during Window. A bucket admits Remaining events now, and then regains as many during Window: with 94 of 100 left at
// 100 a minute, 94 more in 57 s. If nothing remains, Window is the time until one event is available. If the Rule denied, Window
// is RetryAfter, unless that is Never. For an [InFlight] that admits the event, it is zero. For a [Quota], it is the time until the
// next period.
type State struct {
	Rule Rule
	// Ask is the index of the ask that the State belongs to: in the arguments of [AllowTogether], or in
	// those of [ReserveTogether].
	Ask int

	Allowed bool // by this Rule, regardless of the other Rules
	Soft    bool // Allowed, but beyond the limit itself: see [Rule.Soft]
	// Unknown reports that this Rule was not evaluated, because another Rule denied the event (see
	// package denycache and [Blocked]). Allowed is then true, and the numbers are zero.
	Unknown bool
	// Estimate reports that RetryAfter is an estimate, because the Rule, an [InFlight], cannot know when
	// a running event ends. A Decision has the longest RetryAfter that is known, and an estimate only if none is known.
	Estimate bool
	Ban      time.Duration // of a key that a denial has banned: until the end, see [Spec.BlockFor]
	period   int32         // of a Quota, in seconds

	Remaining  int           // events that are left now
	RetryAfter time.Duration // not Allowed: the least wait until this Rule admits the same cost, or Never; see Estimate
	ResetAfter time.Duration // the time until nothing is used
	Window     time.Duration // the parameter t of the RateLimit field
	Delay      time.Duration // Allowed: delay the event this long
}

// Period returns the length of the present period of a [Quota] in whole seconds, and zero for other rules.
func (s State) Period() time.Duration { return time.Duration(s.period) * time.Second }

// Limit returns the limit that was in force.
func (s State) Limit() Limit { return s.Rule.Limit() }

// Used returns the capacity of the rule minus Remaining, or zero if the State is Unknown. The result is at
// most the capacity, even in debt or beyond the limit of a [Rule.Soft].
func (s State) Used() int {
	if s.Unknown {
		return 0
	}
	return s.Rule.Capacity() - s.Remaining
}

// String describes d for logs, without the key. The last example is the zero Decision:
//
//	allowed: "second" 9 of 10 left, "hour" 499 of 500 left
//	allowed after 100ms: "queue" 8 of 10 left
//	denied, retry after 6s: "page" 0 of 10 left
//	denied for ever: "page" 9 of 10 left
//	denied, retry after 6s: "page" 0 of 10 left, "hour" unknown
//	denied, retry after about 30s: "exports" 0 of 5 left
//	denied for ever: "page" blocked, "hour" unlimited
//	denied, retry after 6s: "partner" closed, "rate" 9 of 10 left
//	denied, retry after 10m0s: "login" banned
//	no decision
func (d Decision) String() string {
	var b strings.Builder
	b.WriteString(d.verdict())
	for i, s := range d.States() {
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		fmt.Fprintf(&b, "%s%q ", separator, s.Rule.Name())
		switch l := s.Limit(); {
		case s.Unknown:
			b.WriteString("unknown")
		case s.Ban > 0:
			b.WriteString("banned")
		case s.Rule.Kind().Closes && l == Unlimited:
			b.WriteString("open")
		case s.Rule.Kind().Closes && !s.isBlocked():
			b.WriteString("closed")
		case !l.counts():
			b.WriteString(l.String())
		default:
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
		return "no decision"
	}
	if d.estimated() {
		return "denied, retry after about " + d.RetryAfter.String()
	}
	return "denied, retry after " + d.RetryAfter.String()
}

// Retry describes RetryAfter for people: "in 6s", "in about 30s" if it is an estimate, or "never". Parts of a second
// are rounded up. It is empty if d is not a denial.
//
//	http.Error(w, "Too many logins. Try again "+d.Retry()+".", http.StatusTooManyRequests)
func (d Decision) Retry() string {
	switch {
	case d.Allowed || d.RetryAfter == 0 && d.n == 0:
		return ""
	case d.RetryAfter == Never:
		return "never"
	}
	wait := period.Duration((d.RetryAfter + time.Second - 1).Truncate(time.Second))
	if d.estimated() {
		return "in about " + wait
	}
	return "in " + wait
}

// LogValue implements [slog.LogValuer]. The group has these attributes:
//
//	allowed      true or false
//	delay        a duration, if there is one
//	retry_after  of a denial: a duration, or the text "never"
//	remaining    a group with the remaining events of each rule, except for an [Unlimited] one
//	             and one whose State is unknown
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
		if !s.Unknown && s.Limit() != Unlimited {
			remaining = append(remaining, slog.Int(s.Rule.Name(), s.Remaining))
		}
	}
	return slog.GroupValue(append(attrs, slog.Group("remaining", remaining...))...)
}

// Len returns the number of States, one for each Rule of each ask.
func (d Decision) Len() int { return d.n }

// State returns the i-th State. The States are in the order of the asks and, for each ask, in the
// order of the Rules of its Limiter. State panics if i is out of range.
func (d Decision) State(i int) State {
	return *d.state(i)
}

// state is State without a copy.
func (d *Decision) state(i int) *State {
	if i == 0 && d.n > 0 {
		return &d.first
	}
	return &d.rest[i-1]
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

// uncharged returns the verdict of rule, whose limit is Unlimited, or Blocked without an end.
func uncharged(rule Rule) *driver.Verdict {
	if rule.Limit() == Unlimited {
		return &unlimited
	}
	return &blocked
}

var (
	unlimited = driver.Verdict{Allowed: true, Remaining: math.MaxInt}
	blocked   = driver.Verdict{RetryAfter: Never, Window: Never}
)

// deniesPlaces reports whether an enforced rule denies d because places are missing.
func (d *Decision) deniesPlaces() bool {
	for _, s := range d.States() {
		if s.Estimate && !s.Rule.IsShadow() {
			return true
		}
	}
	return false
}

// paused reports whether a pause denies d, or the ban of a rule.
func (d *Decision) paused() bool {
	for _, s := range d.States() {
		if !s.Allowed && (s.Rule.Kind().Closes || s.Ban > 0) && !s.Rule.IsShadow() {
			return true
		}
	}
	return false
}

// estimated reports whether every enforced rule that denies d can only estimate its RetryAfter.
func (d *Decision) estimated() bool {
	if d.Allowed {
		return false
	}
	for i := range d.n {
		if s := d.state(i); !s.Allowed && !s.Estimate && !s.Rule.IsShadow() || s.Unknown {
			return false
		}
	}
	return true
}

// Soft reports whether the event was admitted beyond the limit of an enforced [Rule.Soft].
func (d Decision) Soft() bool {
	for _, s := range d.States() {
		if s.Soft && d.Allowed && !s.Rule.IsShadow() {
			return true
		}
	}
	return false
}

// Blocked reports whether the event was denied because an enforced limit is [Blocked], for ever or
// until the end of a block. A denial by a [Pause] is none.
func (d Decision) Blocked() bool {
	for _, s := range d.States() {
		if s.isBlocked() && !s.Rule.IsShadow() {
			return true
		}
	}
	return false
}

// isBlocked reports whether the limit of s is Blocked, and not only in the State of a Pause that is closed.
func (s *State) isBlocked() bool { return s.Limit() == Blocked && s.Rule.d.compiled == nil }

// StateOf returns the State of the first Rule with the name, and false if no Rule has the name.
func (d Decision) StateOf(name string) (State, bool) {
	for _, s := range d.States() {
		if s.Rule.Name() == name {
			return s, true
		}
	}
	return State{}, false
}

// binding returns the index of the State that determines d: of a denial, the one with the longest
// RetryAfter, and otherwise the first one that is beyond its limit, or else the first one.
func (d *Decision) binding() int {
	at := -1
	for i := range d.n {
		switch s := d.state(i); {
		case s.Rule.d.spec.Shadow:
		case at < 0:
			at = i
		case d.Allowed:
			if s.Soft && !d.state(at).Soft {
				at = i
			}
		case !s.Allowed && (d.state(at).Allowed || s.RetryAfter > d.state(at).RetryAfter):
			at = i
		}
	}
	return max(at, 0)
}

// result returns the Result of the rule of s, which is zero if s is Unknown.
func (s *State) result() driver.Result {
	switch {
	case s.Unknown:
		return 0
	case s.Allowed && s.Soft:
		return driver.Soft
	case s.Allowed:
		return driver.Allowed
	case s.Rule.d.spec.Shadow:
		return driver.ShadowDenied
	case s.isBlocked():
		return driver.Blocked
	case s.Ban > 0:
		return driver.Banned
	case s.RetryAfter == Never:
		return driver.NeverAllowed
	}
	return driver.Denied
}
