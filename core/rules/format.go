package rules

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-go/weir/core"
)

// Format returns c in the format that [Parse] reads, with policies, keys, limits and routes in the
// order of their names. Parse returns an equal Config for the result. The error is that of Parse if
// c is invalid.
func (c *Config) Format() ([]byte, error) {
	file := new(mapping)
	addSorted(file, "policies", c.Policies, 0, Policy.node)
	addSorted(file, "routes", c.Routes, 0, text)
	file.addTrue("disabled", c.Disabled)
	data, err := yaml.Dump(file.node(0), yaml.WithLineWidth(-1), yaml.WithCompactSeqIndent(false))
	if err != nil {
		return nil, err
	}
	if _, err := Parse("config", data); err != nil {
		return nil, err
	}
	return data, nil
}

// Format returns o as one line that [ParseOverride] reads, without a line break at its end:
//
//	{plan: gold, limits: {second: 5/s}, until: '2027-01-01T00:00:00Z'}
//
// ParseOverride returns an equal Override for the result. The error is that of ParseOverride if o is
// invalid.
func (o Override) Format() ([]byte, error) {
	text, err := yaml.Dump(o.node(), yaml.WithLineWidth(-1))
	if err != nil {
		return nil, err
	}
	if _, err := ParseOverride("override", text); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text, []byte("\n")), nil
}

// A mapping collects the keys and values of a mapping of a file.
type mapping []*yaml.Node

func (m *mapping) add(key string, v *yaml.Node) { *m = append(*m, text(key), v) }

// addTrue adds a boolean unless it is false.
func (m *mapping) addTrue(key string, b bool) {
	if b {
		m.add(key, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})
	}
}

// addSorted adds values as a mapping in the order of their keys, unless there are none.
func addSorted[T any](m *mapping, key string, values map[string]T, style yaml.Style, node func(T) *yaml.Node) {
	if len(values) == 0 {
		return
	}
	all := new(mapping)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all.add(name, node(values[name]))
	}
	m.add(key, all.node(style))
}

func (m *mapping) node(style yaml.Style) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: style, Content: *m}
}

func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

func number(tag string, f float64) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: strconv.FormatFloat(f, 'f', -1, 64)}
}

// limit returns the text of l, or an integer if it has no period.
func limit(l core.Limit) *yaml.Node {
	if l.Events > 0 && l == (core.Limit{Events: l.Events}) {
		return number("!!int", float64(l.Events))
	}
	return text(l.String())
}

func (p Policy) node() *yaml.Node {
	m := new(mapping)
	if p.Enforce != 100 {
		m.add("enforce", number("", p.Enforce))
	}
	m.addTrue("disabled", p.Disabled)
	rules := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, r := range p.Rules {
		rules.Content = append(rules.Content, r.node())
	}
	m.add("rules", rules)
	addSorted(m, "keys", p.Keys, 0, Override.node)
	return m.node(0)
}

func (r *Rule) node() *yaml.Node {
	m := new(mapping)
	if r.Name != "" {
		m.add("name", text(r.Name))
	}
	m.add("algorithm", text(r.Algorithm.String()))
	m.add("limit", limit(r.Limit))
	if len(r.Plans) > 0 {
		plans := new(mapping)
		for _, p := range r.Plans {
			plans.add(p.Name, limit(p.Limit))
		}
		m.add("plans", plans.node(yaml.FlowStyle))
	}
	addSorted(m, "headroom", r.Headroom, yaml.FlowStyle, func(percent float64) *yaml.Node { return number("", percent) })
	if r.Soft != 0 {
		m.add("soft", number("", r.Soft))
	}
	if r.SubWindows != 0 {
		m.add("sub_windows", number("!!int", float64(r.SubWindows)))
	}
	if r.Hold != 0 {
		m.add("hold", text(duration(r.Hold)))
	}
	if r.MaxHold != 0 {
		m.add("max_hold", text(duration(r.MaxHold)))
	}
	if r.Timezone != "" {
		m.add("timezone", text(r.Timezone))
	}
	if r.Shadow {
		m.add("mode", text("shadow"))
	}
	if r.Unit != "" {
		m.add("unit", text(r.Unit))
	}
	if r.Candidate != nil {
		m.add("candidate", r.Candidate.node())
	}
	return m.node(yaml.FlowStyle)
}

func (o Override) node() *yaml.Node {
	m := new(mapping)
	m.addTrue("blocked", o.Blocked)
	if o.Plan != "" {
		m.add("plan", text(o.Plan))
	}
	addSorted(m, "limits", o.Limits, yaml.FlowStyle, limit)
	if !o.Until.IsZero() {
		m.add("until", text(o.Until.UTC().Format(time.RFC3339Nano)))
	}
	return m.node(yaml.FlowStyle)
}
