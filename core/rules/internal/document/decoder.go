package document

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/similar"
	"go.yaml.in/yaml/v4"
)

// A Value is a part of a document. The zero value is a field that is absent.
type Value struct {
	Node *yaml.Node
	path *place // nil for the whole file
}

// A place is the position of a value in a file. Its text is made for an error only: a long key above
// many values would take memory for each of them.
type place struct {
	in    *place
	name  string
	index int // in a list, if name is empty
}

func (p *place) String() string {
	if p == nil {
		return ""
	}
	switch name := Shorten(p.name); {
	case name == "":
		return fmt.Sprintf("%v[%d]", p.in, p.index)
	case !PlainName.MatchString(name):
		return p.in.String() + "[" + strconv.Quote(name) + "]"
	case p.in == nil:
		return name
	default:
		return p.in.String() + "." + name
	}
}

// A Pair is a key and its value in a mapping.
type Pair struct {
	Name       string
	Key, Value Value
}

// PlainName matches names that need no quotes, such as those of policies and rules.
var PlainName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// A Decoder decodes a document. Its methods report errors and return zero values for invalid parts. The zero Decoder
// has no text.
type Decoder struct {
	Errors, Warnings []Error // without excerpts
	file, data       string
}

// Fail reports an error at v, which may be absent if d is full.
func (d *Decoder) Fail(v Value, format string, args ...any) {
	if !d.Full() {
		d.report(v.Node.Line, v.Node.Column, v.path.String(), fmt.Sprintf(format, args...))
	}
}

// kinds describes the values that a file can contain, by their tags.
var kinds = map[string]string{
	"!!map": "a mapping", "!!seq": "a list", "!!str": "a text", "!!int": "an integer", "!!float": "a number",
	"!!bool": "a boolean", "!!null": "null", "!!timestamp": "a time", "!!merge": "a merge key",
}

// Is reports whether v is present and has one of the tags. If v is present but has another tag, it
// is an error.
func (d *Decoder) Is(v Value, tags ...string) bool {
	switch {
	case v.Node == nil:
		return false
	case v.Node.Kind == yaml.AliasNode || v.Node.Anchor != "":
		d.Fail(v, "anchors and aliases are not supported")
	case v.Node.Style&yaml.TaggedStyle != 0 || v.Node.Tag == "!":
		d.Fail(v, "tags are not supported")
	case !slices.Contains(tags, v.Node.Tag):
		d.Fail(v, "is %s, expected %s", kinds[v.Node.Tag], kinds[tags[0]])
	default:
		return true
	}
	return false
}

// Pairs returns the pairs of a mapping.
func (d *Decoder) Pairs(v Value) (all []Pair) {
	if !d.Is(v, "!!map") {
		return nil
	}
	first := make(map[string]*yaml.Node)
	for i := 0; i+1 < len(v.Node.Content) && !d.Full(); i += 2 {
		key := v.Node.Content[i]
		at := &place{in: v.path, name: key.Value}
		kv := Pair{key.Value, Value{key, at}, Value{v.Node.Content[i+1], at}}
		switch before := first[kv.Name]; {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge" || key.Anchor != "" || key.Style&yaml.TaggedStyle != 0:
			d.Fail(Value{key, v.path}, "a key must be a text, without tags, anchors, aliases and merge keys")
		case kv.Name == "":
			d.Fail(Value{key, v.path}, "a key is empty")
		case before != nil:
			d.Fail(kv.Key, "is given twice, first on line %d", before.Line)
		default:
			first[kv.Name] = key
			all = append(all, kv)
		}
	}
	return all
}

// Object returns the fields of a mapping that has only the known fields, or nil if v is no mapping.
func (d *Decoder) Object(v Value, known []string) map[string]Value {
	if !d.Is(v, "!!map") {
		return nil
	}
	fields := make(map[string]Value, len(known))
	for _, kv := range d.Pairs(v) {
		if slices.Contains(known, kv.Name) {
			fields[kv.Name] = kv.Value
			continue
		}
		d.Fail(kv.Key, "is an unknown field%s", hint(kv.Name, known, "; known are "))
	}
	return fields
}

// hint returns the element of known that is similar to name. If there is none, it returns list with the elements, and
// the remedy if a newer version of weir knows name.
func hint(name string, known []string, list string) string {
	return similar.Nearest(name, known, list+strings.Join(known, ", ")+"; if a newer version knows it, update the program before its configuration")
}

// Elements returns the elements of a list.
func (d *Decoder) Elements(v Value) (all []Value) {
	if !d.Is(v, "!!seq") {
		return nil
	}
	for i, n := range v.Node.Content {
		all = append(all, Value{n, &place{in: v.path, index: i}})
	}
	return all
}

// Word decodes a text that is not empty.
func (d *Decoder) Word(v Value, to *string) {
	if !d.Is(v, "!!str") {
		return
	}
	if *to = v.Node.Value; *to == "" {
		d.Fail(v, "%s is empty", v.path.name)
	}
}

// Choose decodes a text that is a key of choices, the values of a field that this version knows. The values have a name.
func Choose[T any](d *Decoder, v Value, name string, choices map[string]T, to *T) {
	if !d.Is(v, "!!str") {
		return
	}
	var ok bool
	if *to, ok = choices[v.Node.Value]; !ok {
		d.Fail(v, "%q is no %s%s", v.Node.Value, name, hint(v.Node.Value, slices.Sorted(maps.Keys(choices)), ": use "))
	}
}

// Duration decodes a positive duration.
func (d *Decoder) Duration(v Value, to *time.Duration) {
	if !d.Is(v, "!!str") {
		return
	}
	if t, err := time.ParseDuration(v.Node.Value); err == nil && t > 0 {
		*to = t
		return
	}
	d.Fail(v, "%q is no positive duration such as 30s or 1h30m", v.Node.Value)
}

// Number decodes a number into to, a pointer to a float64 or int. It returns false for an invalid
// or absent value.
func (d *Decoder) Number(v Value, to any, tags ...string) bool {
	if !d.Is(v, tags...) {
		return false
	}
	if err := v.Node.Decode(to); err != nil {
		d.Fail(v, "%q is too large", v.Node.Value)
		return false
	}
	return true
}

// Boolean decodes a boolean, which is false if it is absent.
func (d *Decoder) Boolean(v Value) bool {
	return d.Is(v, "!!bool") && strings.EqualFold(v.Node.Value, "true")
}

// Put sets a value of a map, which it makes if it is nil: a mapping without valid pairs is absent.
func Put[T any](to *map[string]T, name string, v T) {
	if *to == nil {
		*to = make(map[string]T)
	}
	(*to)[name] = v
}
