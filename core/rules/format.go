package rules

import (
	"bytes"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/rules/internal/document"
)

// Format returns c in the format that [Parse] reads, with policies, keys, limits and routes in the
// order of their names. Parse returns an equal Config for the result. The error is that of Parse if
// c is invalid.
func (c *Config) Format() ([]byte, error) {
	file := new(document.Mapping)
	file.Add("policies", document.Sorted(c.Policies, 0, Policy.node))
	file.Add("routes", document.Sorted(c.Routes, 0, document.Text))
	if c.AllRoutes != "" {
		file.Add("all_routes", document.Text(c.AllRoutes))
	}
	file.AddTrue("disabled", c.Disabled)
	data, err := yaml.Dump(file.Node(0), yaml.WithLineWidth(-1), yaml.WithCompactSeqIndent(false))
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

// limit returns the text of l, or an integer if it has no period.
func limit(l core.Limit) *yaml.Node {
	if l.Events > 0 && l == (core.Limit{Events: l.Events}) {
		return document.Number("!!int", float64(l.Events))
	}
	return document.Text(l.String())
}

func (p Policy) node() *yaml.Node {
	m := new(document.Mapping)
	if p.Enforce != 100 {
		m.Add("enforce", document.Number("", p.Enforce))
	}
	m.AddTrue("disabled", p.Disabled)
	rules := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, r := range p.Rules {
		rules.Content = append(rules.Content, r.node())
	}
	m.Add("rules", rules)
	m.Add("keys", document.Sorted(p.Keys, 0, Override.node))
	return m.Node(0)
}

func (r *Rule) node() *yaml.Node {
	m := new(document.Mapping)
	for i := range fields {
		m.Add(fields[i].name, fields[i].node(r))
	}
	if r.Candidate != nil {
		m.Add("candidate", r.Candidate.node())
	}
	return m.Node(yaml.FlowStyle)
}

func (o Override) node() *yaml.Node {
	m := new(document.Mapping)
	m.AddTrue("blocked", o.Blocked)
	if o.Plan != "" {
		m.Add("plan", document.Text(o.Plan))
	}
	m.Add("limits", document.Sorted(o.Limits, yaml.FlowStyle, limit))
	if !o.Until.IsZero() {
		m.Add("until", document.Text(o.Until.UTC().Format(time.RFC3339Nano)))
	}
	return m.Node(yaml.FlowStyle)
}
