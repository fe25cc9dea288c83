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
	add := func(has bool, of Property, values ...any) {
		if has {
			of.Text = fmt.Sprintf(of.Text, values...)
			all = append(all, of)
		}
	}
	properties := s.kind().Properties
	add(s.FromFirst, Property{Name: "from first", Text: "from the first event", OfLimit: true})
	add(slices.Contains(properties, "sub-windows"), Property{Name: "sub-windows", Text: "in %d sub-windows", Default: s.SubWindows == defaultSubWindows}, s.SubWindows)
	add(s.ByCost, Property{Name: "by cost", Text: "by cost", OfLimit: true})
	add(slices.Contains(properties, "hold"), Property{Name: "hold", Text: "hold " + period.Duration(s.Hold), Default: s.Hold == defaultHold})
	add(s.Location != nil || slices.Contains(properties, "location"), Property{Name: "location", Text: "in %v", Default: s.Location == nil, OfLimit: true}, cmp.Or(s.Location, time.UTC))
	add(s.Anchor != nil, Property{Name: "anchor", Text: "anchored"})
	add(s.MaxHold == Never, Property{Name: "max hold", Text: "max hold never"})
	add(s.MaxHold > 0 && s.MaxHold != Never, Property{Name: "max hold", Text: "max hold " + period.Duration(s.MaxHold)})
	add(s.Soft > 0, Property{Name: "soft", Text: "soft %v%%"}, s.Soft)
	add(p.Headroom > 0, Property{Name: "headroom", Text: "headroom %v%%", OfLimit: true}, p.Headroom)
	add(s.UpTo != 0, Property{Name: "elastic", Text: "elastic up to %v"}, s.UpTo)
	add(s.Shadow, Property{Name: "shadow", Text: "shadow"})
	add(s.Unit != "", Property{Name: "unit", Text: "unit %s"}, s.Unit)
	add(p.Name != "", Property{Name: "plan", Text: "plan %q"}, p.Name)
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
