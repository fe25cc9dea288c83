package rules

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-go/weir/core"
)

// A value is a part of a file. The zero value is a field that is absent.
type value struct {
	node *yaml.Node
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
	switch name := shorten(p.name); {
	case name == "":
		return fmt.Sprintf("%v[%d]", p.in, p.index)
	case !plainName.MatchString(name):
		return p.in.String() + "[" + strconv.Quote(name) + "]"
	case p.in == nil:
		return name
	default:
		return p.in.String() + "." + name
	}
}

// A pair is a key and its value in a mapping.
type pair struct {
	name       string
	key, value value
}

// plainName matches the names of policies and rules.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// A decoder decodes a file. Its methods report errors and return zero values for invalid parts.
type decoder struct{ reporter }

// fail reports an error at v, which may be absent if d is full.
func (d *decoder) fail(v value, format string, args ...any) {
	if !d.full() {
		d.report(v.node.Line, v.node.Column, v.path.String(), fmt.Sprintf(format, args...))
	}
}

// kinds describes the values that a file can contain, by their tags.
var kinds = map[string]string{
	"!!map": "a mapping", "!!seq": "a list", "!!str": "a text", "!!int": "an integer", "!!float": "a number",
	"!!bool": "a boolean", "!!null": "null", "!!timestamp": "a time", "!!merge": "a merge key",
}

// is reports whether v is present and has one of the tags. If v is present but has another tag, it
// is an error.
func (d *decoder) is(v value, tags ...string) bool {
	switch {
	case v.node == nil:
		return false
	case v.node.Kind == yaml.AliasNode || v.node.Anchor != "":
		d.fail(v, "anchors and aliases are not supported")
	case v.node.Style&yaml.TaggedStyle != 0 || v.node.Tag == "!":
		d.fail(v, "tags are not supported")
	case !slices.Contains(tags, v.node.Tag):
		d.fail(v, "is %s, expected %s", kinds[v.node.Tag], kinds[tags[0]])
	default:
		return true
	}
	return false
}

// pairs returns the pairs of a mapping.
func (d *decoder) pairs(v value) (all []pair) {
	if !d.is(v, "!!map") {
		return nil
	}
	first := make(map[string]*yaml.Node)
	for i := 0; i+1 < len(v.node.Content) && !d.full(); i += 2 {
		key := v.node.Content[i]
		at := &place{in: v.path, name: key.Value}
		kv := pair{key.Value, value{key, at}, value{v.node.Content[i+1], at}}
		switch before := first[kv.name]; {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge" || key.Anchor != "" || key.Style&yaml.TaggedStyle != 0:
			d.fail(value{key, v.path}, "a key must be a text, without tags, anchors, aliases and merge keys")
		case kv.name == "":
			d.fail(value{key, v.path}, "a key is empty")
		case before != nil:
			d.fail(kv.key, "is given twice, first on line %d", before.Line)
		default:
			first[kv.name] = key
			all = append(all, kv)
		}
	}
	return all
}

// object returns the fields of a mapping that has only the known fields, or nil if v is no mapping.
func (d *decoder) object(v value, known []string) map[string]value {
	if !d.is(v, "!!map") {
		return nil
	}
	fields := make(map[string]value, len(known))
	for _, kv := range d.pairs(v) {
		if slices.Contains(known, kv.name) {
			fields[kv.name] = kv.value
			continue
		}
		d.fail(kv.key, "is an unknown field%s", nearest(kv.name, known, "; known are "+strings.Join(known, ", ")))
	}
	return fields
}

// elements returns the elements of a list.
func (d *decoder) elements(v value) (all []value) {
	if !d.is(v, "!!seq") {
		return nil
	}
	for i, n := range v.node.Content {
		all = append(all, value{n, &place{in: v.path, index: i}})
	}
	return all
}

// limit decodes a limit, whose text may be an integer if it has no period. It returns false for an
// invalid or absent value.
func (d *decoder) limit(v value, to *core.Limit) bool {
	if !d.is(v, "!!str", "!!int") {
		return false
	}
	text := v.node.Value
	if n := 0; v.node.Tag == "!!int" {
		if !d.number(v, &n, "!!int") {
			return false
		}
		text = strconv.Itoa(n)
	}
	if err := to.UnmarshalText([]byte(text)); err != nil {
		d.fail(v, "%s", strings.TrimPrefix(err.Error(), "weir: "))
		return false
	}
	return true
}

// limitOrNone decodes a limit, and a text that is none as core.Unlimited, which is valid.
func (d *decoder) limitOrNone(v value, to *core.Limit) {
	*to = core.Unlimited
	d.limit(v, to)
}

func (d *decoder) percent(v value, to *float64) { d.number(v, to, "!!float", "!!int") }

// count decodes an integer whose default is zero, and 0 as -1: a file can leave the field out.
func (d *decoder) count(v value, to *int) {
	if d.number(v, to, "!!int") && *to == 0 {
		*to = -1
	}
}

// word decodes a text that is not empty.
func (d *decoder) word(v value, to *string) {
	if !d.is(v, "!!str") {
		return
	}
	if *to = v.node.Value; *to == "" {
		d.fail(v, "%s is empty", v.path.name)
	}
}

// chosen returns a decoder of texts that are the keys of choices.
func chosen[T any](what string, choices map[string]T) func(d *decoder, v value, to *T) {
	return func(d *decoder, v value, to *T) {
		if !d.is(v, "!!str") {
			return
		}
		var ok bool
		if *to, ok = choices[v.node.Value]; !ok {
			names := slices.Sorted(maps.Keys(choices))
			d.fail(v, "%q is no %s%s", v.node.Value, what, nearest(v.node.Value, names, ": use "+strings.Join(names, ", ")))
		}
	}
}

// duration decodes a positive duration.
func (d *decoder) duration(v value, to *time.Duration) {
	if !d.is(v, "!!str") {
		return
	}
	if t, err := time.ParseDuration(v.node.Value); err == nil && t > 0 {
		*to = t
		return
	}
	d.fail(v, "%q is no positive duration such as 30s or 1h30m", v.node.Value)
}

// number decodes a number into to, a pointer to a float64 or int. It returns false for an invalid
// or absent value.
func (d *decoder) number(v value, to any, tags ...string) bool {
	if !d.is(v, tags...) {
		return false
	}
	if err := v.node.Decode(to); err != nil {
		d.fail(v, "%q is too large", v.node.Value)
		return false
	}
	return true
}

// boolean decodes a boolean, which is false if it is absent.
func (d *decoder) boolean(v value) bool {
	return d.is(v, "!!bool") && strings.EqualFold(v.node.Value, "true")
}

// put sets a value of a map, which it makes if it is nil: a mapping without valid pairs is absent.
func put[T any](to *map[string]T, name string, v T) {
	if *to == nil {
		*to = make(map[string]T)
	}
	(*to)[name] = v
}
