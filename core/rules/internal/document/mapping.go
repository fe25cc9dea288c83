package document

import (
	"maps"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v4"
)

// A Mapping collects the keys and values of a mapping to write.
type Mapping []*yaml.Node

// Add adds a value unless it is nil.
func (m *Mapping) Add(key string, v *yaml.Node) {
	if v != nil {
		*m = append(*m, Text(key), v)
	}
}

// AddTrue adds a boolean unless it is false.
func (m *Mapping) AddTrue(key string, b bool) {
	if b {
		m.Add(key, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"})
	}
}

// Sorted returns values as a mapping in the order of their keys, or nil if there are none.
func Sorted[T any](values map[string]T, style yaml.Style, node func(T) *yaml.Node) *yaml.Node {
	if len(values) == 0 {
		return nil
	}
	all := new(Mapping)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all.Add(name, node(values[name]))
	}
	return all.Node(style)
}

// Node returns the mapping.
func (m *Mapping) Node(style yaml.Style) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: style, Content: *m}
}

// Text returns a text.
func Text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

// Number returns a number with a tag.
func Number(tag string, f float64) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: strconv.FormatFloat(f, 'f', -1, 64)}
}

// Encoded appends n to b in a form that no other node has.
func Encoded(b []byte, n *yaml.Node) []byte {
	b = strconv.AppendQuote(strconv.AppendInt(b, int64(len(n.Content)), 10), n.Value)
	for _, c := range n.Content {
		b = Encoded(b, c)
	}
	return b
}
