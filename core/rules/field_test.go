package rules

import (
	"reflect"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

// Each property of a Spec has a field, or no configuration can have it. Diff describes a change of any field.
func TestFields_Spec(t *testing.T) {
	values := map[reflect.Type]any{
		reflect.TypeFor[string](): "x", reflect.TypeFor[float64](): 1.0, reflect.TypeFor[int](): 1, reflect.TypeFor[bool](): true,
		reflect.TypeFor[time.Duration](): time.Second, reflect.TypeFor[core.Limit](): core.PerSecond(1), reflect.TypeFor[*time.Location](): time.UTC,
		reflect.TypeFor[[]core.Plan](): []core.Plan{{Name: "gold", Limit: core.PerSecond(1)}}, reflect.TypeFor[func() float64](): func() float64 { return 0 },
	}
	for property := range reflect.TypeFor[core.Spec]().Fields() {
		switch property.Name {
		case "Name", "Algorithm", "Anchor":
			continue
		}
		changed := func(a core.Algorithm) *Rule {
			r := &Rule{Spec: core.Spec{Algorithm: a}}
			v := reflect.ValueOf(values[property.Type])
			reflect.ValueOf(&r.Spec).Elem().FieldByIndex(property.Index).Set(v)
			return r
		}
		var known, described bool
		for _, f := range fields {
			r, before := changed(f.algorithm()), &Rule{Spec: core.Spec{Algorithm: f.algorithm()}}
			known = known || f.node(r) != nil && f.node(before) == nil || property.Name == "Limit" && f.name == "limit"
			var d differ
			if f.diff != nil {
				f.diff(&d, "r", before, r)
			}
			described = described || len(d) == 1
		}
		if foreign := changed(0).isForeign(); known == foreign || described == foreign {
			t.Errorf("%s: Format knows it: %t, and Diff: %t; it is not one of configurations: %t", property.Name, known, described, foreign)
		}
	}
}
