package rules

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/period"
	"github.com/weir-go/weir/core/rules/internal/document"
)

// A field is a property of a rule. Parse, Format and Diff know the properties from fields alone.
type field struct {
	name     string // in a file
	required bool
	shared   bool   // a candidate has the field, too
	property string // in the words of [driver.Kind.Properties]; empty if the field has a meaning for all rules, or for all but pauses
	still    bool   // Diff leaves the field out where the algorithm changes
	subject  string // of Diff, after the name of the rule
	single   bool   // it has one value

	decode func(d decoder, v document.Value, r *Rule) bool // false ends the decoding of r
	node   func(r *Rule) *yaml.Node                        // nil if the field is absent
	diff   func(d *differ, what string, a, b *Rule)        // nil if there is no difference to report
}

// fields has the fields in the order of Format. A candidate, which has fields itself, is none of them.
var fields = []field{
	single(field{name: "name", required: true}, codec[string]{decode: decoder.name, text: strings.Clone}, func(r *Rule) *string { return &r.Name }),
	single(field{name: "algorithm", required: true, shared: true, subject: " algorithm"}, algorithmCodec, func(r *Rule) *core.Algorithm { return &r.Algorithm }),
	single(field{name: "limit", required: true, shared: true, property: "limit"}, limitCodec, func(r *Rule) *core.Limit { return &r.Limit }),
	{name: "plans", decode: decoder.plans, node: plansNode, diff: (*differ).plans},
	{name: "headroom", decode: decoder.headroom, node: headroomNode, diff: (*differ).headroom},
	single(field{name: "soft", shared: true, subject: " soft"}, percentCodec, func(r *Rule) *float64 { return &r.Soft }),
	single(field{name: "from_first", shared: true, property: "from first", still: true, subject: " from first"}, yesCodec, func(r *Rule) *bool { return &r.FromFirst }),
	single(field{name: "sub_windows", shared: true, property: "sub-windows", still: true, subject: " sub-windows"}, countCodec, func(r *Rule) *int { return &r.SubWindows }),
	single(field{name: "by_cost", shared: true, property: "by cost", subject: " by cost"}, yesCodec, func(r *Rule) *bool { return &r.ByCost }),
	single(field{name: "hold", shared: true, property: "hold", subject: " hold"}, durationCodec, func(r *Rule) *time.Duration { return &r.Hold }),
	single(field{name: "max_hold", shared: true, property: "max hold", subject: " max hold"}, durationCodec, func(r *Rule) *time.Duration { return &r.MaxHold }),
	single(field{name: "rollover", shared: true, property: "rollover", subject: " rollover"}, countCodec, func(r *Rule) *int { return &r.Rollover }),
	single(field{name: "timezone", shared: true, property: "timezone", subject: " timezone"}, wordCodec("UTC"), func(r *Rule) *string { return &r.Timezone }),
	single(field{name: "block_for", property: "block for", subject: " block for"}, durationCodec, func(r *Rule) *time.Duration { return &r.BlockFor }),
	single(field{name: "mode", subject: " mode"}, modeCodec, func(r *Rule) *bool { return &r.Shadow }),
	single(field{name: "unit", subject: " unit"}, wordCodec("requests"), func(r *Rule) *string { return &r.Unit }),
}

var sharedFields, ownFields = fieldsWith(true), fieldsWith(false)

func fieldsWith(shared bool) []field {
	return slices.DeleteFunc(slices.Clone(fields), func(f field) bool { return f.shared != shared })
}

// namesOf returns the names of fields.
func namesOf(fields []field) (names []string) {
	for _, f := range fields {
		names = append(names, f.name)
	}
	return names
}

// single returns f with its functions, for a field with one document.Value, which at returns. A zero value is absent
// unless f is required in rules and candidates.
func single[T comparable](f field, k codec[T], at func(*Rule) *T) field {
	preset := *at(&Rule{Spec: core.NewRule(core.Spec{Algorithm: f.algorithm()}).Spec()})
	f.single = true
	f.decode = func(d decoder, v document.Value, r *Rule) bool {
		if v.Node != nil || !f.isAbsent(r) {
			k.decode(d, v, at(r))
		}
		return true
	}
	f.node = func(r *Rule) *yaml.Node {
		var zero T
		switch v := *at(r); {
		case v == zero && (!(f.required && f.shared) || f.isAbsent(r)):
			return nil
		case k.node != nil:
			return k.node(v)
		default:
			return document.Text(k.text(v))
		}
	}
	f.diff = func(d *differ, what string, a, b *Rule) {
		if f.required || f.has(b) && (f.has(a) || !f.still) {
			before, after := cmp.Or(*at(a), preset), cmp.Or(*at(b), preset)
			change(d, what+f.subject, &before, &after, k.text)
		}
	}
	return f
}

// has reports whether f has a meaning for r.
func (f *field) has(r *Rule) bool { return f.property == "" || r.allows(f.property) }

// algorithm returns one that has f, or 0 if all have it.
func (f *field) algorithm() core.Algorithm {
	if f.property == "" {
		return 0
	}
	for _, a := range algorithmNames {
		if f.has(&Rule{Spec: core.Spec{Algorithm: a}}) {
			return a
		}
	}
	panic("weir: no algorithm has the field " + f.name)
}

// isAbsent reports whether f has no meaning for r, although it is required of all others.
func (f *field) isAbsent(r *Rule) bool { return f.required && r.Algorithm != 0 && !f.has(r) }

// A codec reads and writes the values of fields of one type.
type codec[T comparable] struct {
	decode func(d decoder, v document.Value, to *T)
	text   func(T) string     // for Diff
	node   func(T) *yaml.Node // of text, if nil
}

var (
	algorithmCodec = codec[core.Algorithm]{decode: func(d decoder, v document.Value, to *core.Algorithm) {
		document.Choose(d.Decoder, v, "algorithm", algorithmNames, to)
	}, text: core.Algorithm.String}
	modeCodec    = codec[bool]{decode: func(d decoder, v document.Value, to *bool) { document.Choose(d.Decoder, v, "mode", modes, to) }, text: either("shadow", "enforce")}
	limitCodec   = codec[core.Limit]{decode: decoder.limitOrNone, text: limitText, node: limit}
	percentCodec = codec[float64]{decode: decoder.percent, text: percent, node: func(f float64) *yaml.Node { return document.Number("", f) }}
	countCodec   = codec[int]{decode: decoder.count, text: strconv.Itoa, node: func(n int) *yaml.Node { return document.Number("!!int", float64(n)) }}
	yesCodec     = codec[bool]{decode: func(d decoder, v document.Value, to *bool) { *to = d.Boolean(v) }, text: either("yes", "no"), node: func(b bool) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(b)}
	}}
	durationCodec = codec[time.Duration]{decode: decoder.Duration, text: duration, node: func(t time.Duration) *yaml.Node { return document.Text(period.Duration(t)) }}
)

// wordCodec is that of texts that are not empty. preset describes one that is absent.
func wordCodec(preset string) codec[string] {
	return codec[string]{decode: decoder.Word, text: func(s string) string { return cmp.Or(s, preset) }}
}

// modes are the values of the field mode: whether a rule is a shadow rule.
var modes = map[string]bool{"enforce": false, "shadow": true}

// either returns a function that returns one of two texts.
func either(yes, no string) func(bool) string {
	return func(b bool) string {
		if b {
			return yes
		}
		return no
	}
}

// duration returns the text of t: "none" for zero, and "never" for a place that is always renewed.
func duration(t time.Duration) string {
	switch t {
	case 0:
		return "none"
	case core.Never:
		return "never"
	}
	return period.Duration(t)
}

// limitText returns the text of l: "none" for that of a pause.
func limitText(l core.Limit) string {
	if l == (core.Limit{}) {
		return "none"
	}
	return l.String()
}

func percent(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) + "%" }

func plansNode(r *Rule) *yaml.Node {
	plans := new(document.Mapping)
	for _, p := range r.Plans {
		plans.Add(p.Name, limit(p.Limit))
	}
	if len(*plans) == 0 {
		return nil
	}
	return plans.Node(yaml.FlowStyle)
}

func (d *differ) plans(what string, a, b *Rule) {
	each(byName(a.Plans, planName), byName(b.Plans, planName), func(name string, before, after *core.Plan) {
		change(d, what+" plan "+name, before, after, func(p core.Plan) string { return p.Limit.String() })
		if before != nil && after != nil && a.Algorithm == b.Algorithm {
			d.unused(what+" plan "+name, states(a, before.Limit), states(b, after.Limit))
		}
	})
}

func headroomNode(r *Rule) *yaml.Node {
	return document.Sorted(r.Headroom, yaml.FlowStyle, percentCodec.node)
}

func (d *differ) headroom(what string, a, b *Rule) {
	each(a.Headroom, b.Headroom, func(name string, a, b *float64) { change(d, what+" headroom "+name, a, b, percent) })
}
