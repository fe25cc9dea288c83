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
	file.add("policies", sorted(c.Policies, 0, Policy.node))
	file.add("routes", sorted(c.Routes, 0, text))
	if c.AllRoutes != "" {
		file.add("all_routes", text(c.AllRoutes))
	}
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

// add adds a value unless it is nil.
func (m *mapping) add(key string, v *yaml.Node) {
	if v != nil {
		*m = append(*m, text(key), v)
	}
}

// addTrue adds a boolean unless it is false.
func (m *mapping) addTrue(key string, b bool) {
	if b {
		m.add(key, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})
	}
}

// sorted returns values as a mapping in the order of their keys, or nil if there are none.
func sorted[T any](values map[string]T, style yaml.Style, node func(T) *yaml.Node) *yaml.Node {
	if len(values) == 0 {
		return nil
	}
	all := new(mapping)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all.add(name, node(values[name]))
	}
	return all.node(style)
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

// encoded appends n to b in a form that no other node has.
func encoded(b []byte, n *yaml.Node) []byte {
	b = strconv.AppendQuote(strconv.AppendInt(b, int64(len(n.Content)), 10), n.Value)
	for _, c := range n.Content {
		b = encoded(b, c)
	}
	return b
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
	m.add("keys", sorted(p.Keys, 0, Override.node))
	return m.node(0)
}

func (r *Rule) node() *yaml.Node {
	m := new(mapping)
	for i := range fields {
		m.add(fields[i].name, fields[i].node(r))
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
	m.add("limits", sorted(o.Limits, yaml.FlowStyle, limit))
	if !o.Until.IsZero() {
		m.add("until", text(o.Until.UTC().Format(time.RFC3339Nano)))
	}
	return m.node(yaml.FlowStyle)
}
