package core

import (
	"fmt"
	"strings"

	"github.com/weir-go/weir/core/driver"
)

// The method with returns a copy of r after change; the zero Rule stays as it is.
func (r Rule) with(change func(*definition)) Rule {
	if r.d == nil {
		return r
	}
	d := *r.d
	change(&d)
	return d.rule()
}

// SubWindows returns r with n sub-windows, 1 to 120. If r is not a [SlidingWindow], [New] returns
// an error for the result. With 120, a sub-window of a minute is half a second long. More
// sub-windows make the rule less strict, its state larger, and costs above one slower in Redis.
func (r Rule) SubWindows(n int) Rule {
	if n == 0 {
		n = -1 // for New to return an error: other algorithms have zero sub-windows
	}
	return r.with(func(d *definition) { d.SubWindows = n })
}

// Soft returns r as soft throttling: events up to percent above the limit are admitted, and flagged
// in [State.Soft] for the handler. Remaining counts the events of the limit itself.
//
// percent is 0 to 1000; 0 makes the limit hard. It applies to the events of a window or log, and to
// the burst of a bucket, whose rate stays. Fractions of an event are dropped: 10 percent of a limit
// of 5 is none.
func (r Rule) Soft(percent float64) Rule { return r.with(func(d *definition) { d.Soft = percent }) }

// SoftPercent returns the percent that the rule admits above its limit.
func (r Rule) SoftPercent() float64 { return r.def().Soft }

// Shadow returns r as a rule that is evaluated and reported but never enforced, to try a limit on
// real traffic. Decisions do not depend on it, and no header field describes it to clients. Its
// State has the answer that it would have given.
//
// A shadow rule is charged if the other rules of the decision admit the event and the charge fits.
// Its state is that of an enforced rule: events that it would have denied are not charged to it.
func (r Rule) Shadow() Rule { return r.with(func(d *definition) { d.Shadow = true }) }

// IsShadow reports whether r is a [Rule.Shadow].
func (r Rule) IsShadow() bool { return r.def().Shadow }

// modifiers returns the part of String after the limit.
func (r *definition) modifiers() string {
	var b strings.Builder
	if r.Algorithm == driver.SlidingWindow && r.SubWindows != DefaultSubWindows {
		fmt.Fprintf(&b, " in %d sub-windows", r.SubWindows)
	}
	if r.Soft > 0 {
		fmt.Fprintf(&b, " soft %v%%", r.Soft)
	}
	if r.UpTo != 0 {
		fmt.Fprintf(&b, " elastic up to %v", r.UpTo)
	}
	if r.Shadow {
		b.WriteString(" shadow")
	}
	return b.String()
}

// Divide returns a rule of the same name and modifiers that admits the n-th part of r, for n
// processes that each enforce their part alone, without a common Store.
//
// The rate of a bucket is divided exactly, with a longer period where the events cannot be divided:
// a third of 10/s is 10/3s. Bursts, and the events of windows and logs, are rounded down, so that n
// parts together never admit more than r. But a part admits at least one event: if r admits fewer
// than n events at once, n parts admit n. Divide returns r itself if n is less than 2, and for a
// rule that cannot be divided: a soft bucket that takes decades to refill.
func (r Rule) Divide(n int) Rule {
	if n < 2 || r.def().err != nil {
		return r
	}
	part := r.d.Definition.Divide(n)
	if divided := r.with(func(d *definition) { d.Definition = part }); divided.d.err == nil {
		return divided
	}
	return r
}
