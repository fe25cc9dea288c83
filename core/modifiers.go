package core

import (
	"fmt"
	"math"
	"strings"
)

// with returns r with a change.
func (r Rule) with(change func(*definition)) Rule {
	d := *r.def()
	change(&d)
	return made(d)
}

// SubWindows returns r with n sub-windows, 1 to [MaxSubWindows]. More of them
// make the rule less strict, its state larger, and in Redis decisions with a cost
// above one slower. It has no meaning for other algorithms than [SlidingWindow], and
// New then says so.
func (r Rule) SubWindows(n int) Rule {
	if n == 0 {
		n = -1 // none is what other algorithms have, and no sliding window
	}
	return r.with(func(d *definition) { d.subWindows = n })
}

// SubWindowCount is the number of sub-windows of a [SlidingWindow], else zero.
func (r Rule) SubWindowCount() int { return r.def().subWindows }

// Soft returns r as soft throttling: percent more than the limit is let through,
// and flagged in [State.Soft] and, by the adapters, in a header field. What is
// told as remaining is what remains of the limit itself. Without Soft a limit is
// hard.
//
// Of a window or log, that is percent of the events; of a bucket, percent of what
// it holds, while its rate stays. Fractions of an event are dropped: 10 percent of
// a limit of 5 is none. percent is 0 to 1000, and zero is hard.
func (r Rule) Soft(percent float64) Rule {
	return r.with(func(d *definition) { d.soft = percent })
}

// SoftPercent is how much more than its limit the rule lets through.
func (r Rule) SoftPercent() float64 { return r.def().soft }

// Shadow returns r as a rule that is evaluated and reported but never enforced, to
// try a limit on real traffic. A decision does not depend on it, and no field
// tells clients about it: its State says what it would have done.
//
// It is charged what the other rules of the decision admit, as far as it fits. So
// its state is what it would be if it were enforced, but for what it would have
// refused.
func (r Rule) Shadow() Rule {
	return r.with(func(d *definition) { d.shadow = true })
}

// IsShadow says whether the rule is a [Rule.Shadow].
func (r Rule) IsShadow() bool { return r.def().shadow }

// maxPercent bounds how soft a limit can be. Beyond it, it is another limit.
const maxPercent = 1000

func (r *definition) checkModifiers() *RuleError {
	switch n := r.subWindows; {
	case n != 0 && r.algorithm != AlgorithmSlidingWindow:
		return r.invalid("sub-windows", "have a meaning for a sliding window only")
	case r.algorithm == AlgorithmSlidingWindow && (n < 1 || n > MaxSubWindows):
		return r.invalid("sub-windows", fmt.Sprintf("are %d, outside 1 to %d", max(0, n), MaxSubWindows))
	case !(r.soft >= 0 && r.soft <= maxPercent): // NaN is neither
		return r.invalid("soft", fmt.Sprintf("is %v percent, outside 0 to %d", r.soft, maxPercent))
	}
	return r.checkElastic()
}

// share is percent of n, without the fraction.
func share(n int64, percent float64) int64 {
	const rounding = 1e-9 // 0.1 percent of 1000 is 1, whatever a float makes of it
	return int64(math.Floor(float64(n)*percent/100 + rounding))
}

// modifiers is what String says beyond the limit.
func (r *definition) modifiers() string {
	var b strings.Builder
	if r.algorithm == AlgorithmSlidingWindow && r.subWindows != DefaultSubWindows {
		fmt.Fprintf(&b, " in %d sub-windows", r.subWindows)
	}
	if r.soft > 0 {
		fmt.Fprintf(&b, " soft %v%%", r.soft)
	}
	if r.elastic != nil {
		fmt.Fprintf(&b, " elastic up to %v", r.elastic.upTo)
	}
	if r.shadow {
		b.WriteString(" shadow")
	}
	return b.String()
}

func (r *definition) sameModifiers(o *definition) bool {
	if (r.elastic == nil) != (o.elastic == nil) || r.elastic != nil && r.elastic.upTo != o.elastic.upTo {
		return false
	}
	return r.subWindows == o.subWindows && r.soft == o.soft && r.shadow == o.shadow
}
