package core

import (
	"fmt"
	"strings"

	"github.com/weir-go/weir/core/driver"
)

// with returns r with a change, and the zero Rule as it is.
func (r Rule) with(change func(*definition)) Rule {
	if r.d == nil {
		return r
	}
	d := *r.d
	change(&d)
	return d.rule()
}

// SubWindows returns r with n sub-windows, 1 to 120: then they are half a second each of a
// minute, half a minute each of an hour. More of them make the rule less strict, its state
// larger, and in Redis decisions with a cost above one slower. It has no meaning for other algorithms than [SlidingWindow], and
// New then says so.
func (r Rule) SubWindows(n int) Rule {
	if n == 0 {
		n = -1 // none is what other algorithms have, and no sliding window
	}
	return r.with(func(d *definition) { d.SubWindows = n })
}

// Soft returns r as soft throttling: percent more than the limit is let through,
// and flagged in [State.Soft], for the handler. Remaining counts the events of the limit
// itself. Without Soft a limit is hard.
//
// For a window or log, percent is that of the events; for a bucket, that of its burst, while
// its rate stays. Fractions of an event are dropped: 10 percent of a limit of 5 is none.
// percent is 0 to 1000, and zero is hard.
func (r Rule) Soft(percent float64) Rule {
	return r.with(func(d *definition) { d.Soft = percent })
}

// SoftPercent is how much more than its limit the rule lets through.
func (r Rule) SoftPercent() float64 { return r.def().Soft }

// Shadow returns r as a rule that is evaluated and reported but never enforced, to
// try a limit on real traffic. A decision does not depend on it, and no field
// tells clients about it: its State has the answer that it would have given.
//
// It is charged for the events that the other rules of the decision admit, as far as they fit.
// So its state is that of an enforced rule, except for the events that it would have denied.
func (r Rule) Shadow() Rule {
	return r.with(func(d *definition) { d.Shadow = true })
}

// IsShadow says whether the rule is a [Rule.Shadow].
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

// Divide returns r for one of n processes that enforce it each on its own, because
// they cannot ask each other: a rule of the same name and modifiers that admits
// the n-th part.
//
// The rate of a bucket is divided exactly, with a longer period where the events
// cannot be divided: a third of 10/s is 10/3s. Its burst, and the events of a
// window or log, are divided without the fraction, so that n parts together
// never admit more than r. But a part admits at least one event, so where r
// admits fewer than n at once, n parts admit n. Divide returns r itself if n is less than 2, and
// for a rule that cannot be divided: a soft bucket that takes decades to refill.
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
