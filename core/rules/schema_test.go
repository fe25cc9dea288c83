package rules

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v4"

	"github.com/weir-go/weir/internal/testkit"
)

func schema(t testing.TB) (*jsonschema.Schema, *jsonschema.Resolved) {
	t.Helper()
	data, err := os.ReadFile("weir.schema.json")
	testkit.Must(t, err)
	s := new(jsonschema.Schema)
	testkit.Must(t, json.Unmarshal(data, s))
	r, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	testkit.Must(t, err)
	return s, r
}

// fromYAML returns the value of a node, as editors see it: the JSON of the YAML.
func fromYAML(t testing.TB, n *yaml.Node) any {
	t.Helper()
	switch n.Tag {
	case "!!map":
		m := make(map[string]any)
		for i := 0; i < len(n.Content); i += 2 {
			m[n.Content[i].Value] = fromYAML(t, n.Content[i+1])
		}
		return m
	case "!!seq":
		l := []any{}
		for _, c := range n.Content {
			l = append(l, fromYAML(t, c))
		}
		return l
	case "!!timestamp":
		return n.Value
	}
	var v any
	testkit.Must(t, n.Decode(&v))
	return v
}

// validates reports whether the schema accepts a file.
func validates(t testing.TB, s *jsonschema.Resolved, data []byte) error {
	t.Helper()
	var n yaml.Node
	testkit.Must(t, yaml.Load(data, &n))
	return s.Validate(fromYAML(t, n.Content[0]))
}

// The schema has the same fields as the format, and requires the same ones. Their types are those of
// TestSchema_Example and TestSchema_Invalid.
func TestSchema_Fields(t *testing.T) {
	s, _ := schema(t)
	for name, test := range map[string]struct {
		schema *jsonschema.Schema
		fields []string
	}{
		"file":      {s, fileFields},
		"policy":    {s.Defs["policy"], policyFields},
		"rule":      {s.Defs["rule"], ruleFields},
		"candidate": {s.Defs["candidate"], candidateFields},
		"override":  {s.Defs["override"], overrideFields},
	} {
		got, want := slices.Sorted(maps.Keys(test.schema.Properties)), slices.Sorted(slices.Values(test.fields))
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, expected %v", name, got, want)
		}
	}
	required := func(all []field) []string {
		return namesOf(slices.DeleteFunc(slices.Clone(all), func(f field) bool { return !f.required || f.property != "" }))
	}
	for name, test := range map[string]struct{ got, want []string }{
		"required":  {s.Defs["rule"].Required, required(fields)},
		"candidate": {s.Defs["candidate"].Required, required(sharedFields)},
		"algorithm": {texts(s.Defs["algorithm"].Enum), slices.Sorted(maps.Keys(algorithmNames))},
		"mode":      {texts(s.Defs["rule"].Properties["mode"].Enum), slices.Sorted(maps.Keys(modes))},
	} {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("%s: got %v, expected %v", name, test.got, test.want)
		}
	}
	for _, f := range sharedFields {
		if r, c := s.Defs["rule"].Properties[f.name], s.Defs["candidate"].Properties[f.name]; !reflect.DeepEqual(r, c) {
			t.Errorf("%s: got %v of a rule, and %v of a candidate", f.name, r, c)
		}
	}
	for name, test := range map[string]struct{ got, want int }{
		"rules":       {*s.Defs["policy"].Properties["rules"].MaxItems, maxRules},
		"plans":       {*s.Defs["rule"].Properties["plans"].MaxProperties, maxPlans},
		"headroom":    {*s.Defs["rule"].Properties["headroom"].MaxProperties, maxPlans},
		"routes":      {*s.Properties["routes"].MaxProperties, maxRoutes},
		"pattern":     {*s.Properties["routes"].PropertyNames.MaxLength, maxPattern},
		"places":      {int(*s.Defs["places"].Maximum), 1000},
		"weights":     {int(*s.Defs["weights"].Maximum), 1_000_000},
		"sub_windows": {int(*s.Defs["sub_windows"].Maximum), 120},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %d, expected %d", name, test.got, test.want)
		}
	}
}

func texts(values []any) (all []string) {
	for _, v := range values {
		all = append(all, v.(string))
	}
	return all
}

func TestSchema_Example(t *testing.T) {
	_, s := schema(t)
	if err := validates(t, s, example(t)); err != nil {
		t.Error(err)
	}
}

// The schema rejects invalid files, except for errors that a schema cannot describe.
func TestSchema_Invalid(t *testing.T) {
	_, s := schema(t)
	for name, test := range invalidFiles {
		if !test.beyond && validates(t, s, []byte(test.in)) == nil {
			t.Errorf("%s: the schema accepts the file", name)
		}
	}
}
