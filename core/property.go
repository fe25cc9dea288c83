package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/core/internal/period"
)

// A Property is one property of a rule in words, apart from its name, algorithm and limit.
type Property struct {
	Name    string // "from first", "sub-windows", "by cost", "hold", "location", "anchor", "max hold", "soft", "headroom", "elastic", "shadow", "unit" or "plan"
	Text    string // such as "from the first event" or "soft 10%"
	Default bool   // the rule has it if nothing is said about it
	OfLimit bool   // says how the limit counts, and belongs to a text about the limit alone
}

// Properties describes s, that of a rule, with the limit of p, one of its plans, or of the zero Plan. The texts, in their order
// and with spaces between them, follow the limit in [Rule.String].
func (s Spec) Properties(p Plan) (all []Property) {
	add := func(name, text string, isDefault bool) {
		ofLimit := slices.Contains([]string{"from first", "by cost", "location", "headroom"}, name)
		all = append(all, Property{name, text, isDefault, ofLimit})
	}
	properties := s.kind().Properties
	if s.FromFirst {
		add("from first", "from the first event", false)
	}
	if slices.Contains(properties, "sub-windows") {
		add("sub-windows", fmt.Sprintf("in %d sub-windows", s.SubWindows), s.SubWindows == defaultSubWindows)
	}
	if s.ByCost {
		add("by cost", "by cost", false)
	}
	if slices.Contains(properties, "hold") {
		add("hold", "hold "+period.Duration(s.Hold), s.Hold == defaultHold)
	}
	if s.Location != nil || slices.Contains(properties, "location") {
		add("location", "in "+cmp.Or(s.Location, time.UTC).String(), s.Location == nil)
	}
	if s.Anchor != nil {
		add("anchor", "anchored", false)
	}
	switch {
	case s.MaxHold == Never:
		add("max hold", "max hold never", false)
	case s.MaxHold > 0:
		add("max hold", "max hold "+period.Duration(s.MaxHold), false)
	}
	if s.Soft > 0 {
		add("soft", fmt.Sprintf("soft %v%%", s.Soft), false)
	}
	if p.Headroom > 0 {
		add("headroom", fmt.Sprintf("headroom %v%%", p.Headroom), false)
	}
	if s.UpTo != 0 {
		add("elastic", fmt.Sprint("elastic up to ", s.UpTo), false)
	}
	if s.Shadow {
		add("shadow", "shadow", false)
	}
	if s.Unit != "" {
		add("unit", "unit "+s.Unit, false)
	}
	if p.Name != "" {
		add("plan", fmt.Sprintf("plan %q", p.Name), false)
	}
	return all
}

// text describes s with the limit of p for logs.
func (s *Spec) text(p *Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q", s.Algorithm, s.Name)
	if !s.kind().Closes || p.Limit != Unlimited {
		b.WriteString(" " + p.Limit.String())
	}
	for _, of := range s.Properties(*p) {
		if !of.Default && of.Name != "unit" {
			b.WriteString(" " + of.Text)
		}
	}
	return b.String()
}
