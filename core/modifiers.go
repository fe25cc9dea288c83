package core

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// modify returns a copy of r in which change has changed r and the rule of every plan. It returns
// the zero Rule unchanged.
func (r Rule) modify(change func(*definition)) Rule {
	if r.d == nil {
		return r
	}
	d := *r.d
	change(&d)
	d.plans = slices.Clone(d.plans)
	for i, p := range d.plans {
		d.plans[i] = p.modify(change)
	}
	return d.rule()
}

// SubWindows returns a copy of r with n sub-windows, 1 to 120. If r is not a [SlidingWindow], [New]
// returns an error for the result. With n = 120, a limit per minute has sub-windows of 0.5 s. More
// sub-windows make the rule less strict, its state larger, and Redis slower for costs above 1.
func (r Rule) SubWindows(n int) Rule {
	if n == 0 {
		n = -1 // an invalid number for every algorithm; zero is valid for the other algorithms
	}
	return r.modify(func(d *definition) { d.SubWindows = n })
}

// Soft returns a copy of r with soft throttling: events up to percent above the limit are admitted,
// and flagged in [State.Soft] for the handler. Remaining does not include them.
//
// percent is 0 to 1000, and 0 makes the limit hard. It applies to the events of a window or log and
// to the burst of a bucket, not to its rate. It is rounded down: 10 percent of 5 is no event.
func (r Rule) Soft(percent float64) Rule { return r.modify(func(d *definition) { d.Soft = percent }) }

// SoftPercent returns the percentage that the rule admits above its limit.
func (r Rule) SoftPercent() float64 { return r.def().Soft }

// Shadow returns a copy of r that is evaluated and reported but never enforced, to try a limit on
// real traffic. Decisions do not depend on a shadow rule, and no header field describes it to
// clients. Its State reports whether the rule would have denied the event.
//
// A shadow rule is charged if the other rules of the decision admit the event and the charge fits.
// Its state is that of an enforced rule: events that it would have denied are not charged to it.
func (r Rule) Shadow() Rule { return r.modify(func(d *definition) { d.Shadow = true }) }

// IsShadow reports whether r is a [Rule.Shadow].
func (r Rule) IsShadow() bool { return r.def().Shadow }

// Label returns a copy of r that is called text in header fields and problem documents, instead of
// its name, which identifies the rule on the Store. Several rules may have one label: it does not
// belong to the definition that [ErrRuleConflict] compares. The characters are those of a name. An
// empty text removes the label.
func (r Rule) Label(text string) Rule { return r.modify(func(d *definition) { d.label = text }) }

// ClientName returns the [Rule.Label] of r, or its name if it has none.
func (r Rule) ClientName() string { return cmp.Or(r.def().label, r.Name()) }

// Unit returns a copy of r whose events have this name in texts for clients, such as "tokens" or "bytes".
// It changes no cost: for a gate, see its option Cost. The text of a problem document is then `Policy "model" allows 1000 tokens per 60 s`. name is a
// plural of at most 32 characters of printable ASCII. It is used as it is written, also for a limit
// of one event: "allows 1 per 60 s (tokens)". An empty name restores the default, "requests".
//
// The header field RateLimit-Policy contains the units that its specification defines: "bytes" as
// qu="content-bytes", and "content-bytes" and "concurrent-requests" as they are, and of an [InFlight]
// always qu="concurrent-requests". Other units have no qu. The unit applies to every plan. Like a
// [Rule.Label], it does not belong to the definition that [ErrRuleConflict] compares, and [Rule.String]
// does not contain it.
func (r Rule) Unit(name string) Rule { return r.modify(func(d *definition) { d.unit = name }) }

// UnitName returns the [Rule.Unit] of r, or "requests" if it has none.
func (r Rule) UnitName() string { return cmp.Or(r.def().unit, "requests") }

// maxUnit is the length of the longest unit.
const maxUnit = 32

// checkTexts returns an error if the label or the unit of r could not be the name of a rule, or if
// the unit is too long.
func (r *definition) checkTexts() error {
	if len(r.unit) > maxUnit {
		return r.invalid("unit", fmt.Sprintf("is %d bytes long, more than %d", len(r.unit), maxUnit))
	}
	for _, text := range []struct{ field, value string }{{"label", r.label}, {"unit", r.unit}} {
		if text.value == "" {
			continue
		}
		as := driver.Definition{Name: text.value, Algorithm: driver.TokenBucket, Events: 1, Per: time.Second}
		var err *RuleError
		if _, invalid := as.Compile(); errors.As(invalid, &err) {
			return r.invalid(text.field, err.Reason)
		}
	}
	return nil
}

// modifiers returns the text after the limit in the result of String.
func (r *definition) modifiers() string {
	var b strings.Builder
	if r.Algorithm == driver.SlidingWindow && r.SubWindows != DefaultSubWindows {
		fmt.Fprintf(&b, " in %d sub-windows", r.SubWindows)
	}
	if r.Algorithm == driver.InFlight && r.Definition.Hold != DefaultHold {
		b.WriteString(" hold " + formatDuration(r.Definition.Hold))
	}
	if r.location != nil {
		b.WriteString(" in " + r.location.String())
	}
	if r.anchor != nil {
		b.WriteString(" anchored")
	}
	if r.maxHold > 0 && r.maxHold < Never {
		b.WriteString(" max hold " + formatDuration(r.maxHold))
	}
	if r.Soft > 0 {
		fmt.Fprintf(&b, " soft %v%%", r.Soft)
	}
	if r.Definition.Headroom > 0 {
		fmt.Fprintf(&b, " headroom %v%%", r.Definition.Headroom)
	}
	if r.UpTo != 0 {
		fmt.Fprintf(&b, " elastic up to %v", r.UpTo)
	}
	if r.Shadow {
		b.WriteString(" shadow")
	}
	if r.Plan != "" {
		fmt.Fprintf(&b, " plan %q", r.Plan)
	}
	return b.String()
}

// Divide returns a copy of r with one n-th of the limit, and of the limit of each plan that r has,
// for n processes that share no Store.
//
// The rate of a bucket is divided exactly. If its events cannot be divided, the period becomes
// longer: a third of 10/s is 10/3s. Bursts, and the events of windows and logs, are rounded down,
// so that n processes together never admit more than r. But each process admits at least one event:
// if r admits fewer than n events at once, n processes admit n. Divide returns r itself if n is
// less than 2, and if r cannot be divided, such as a soft bucket that takes decades to refill.
func (r Rule) Divide(n int) Rule {
	if n < 2 || r.def().err != nil {
		return r
	}
	d := *r.d
	d.Definition, d.plans = d.Definition.Divide(n), slices.Clone(d.plans)
	for i, p := range d.plans {
		d.plans[i] = p.Divide(n)
	}
	if divided := d.rule(); divided.d.err == nil {
		return divided
	}
	return r
}
