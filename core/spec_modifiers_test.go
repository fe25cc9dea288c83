package core_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

// TestSpec_Modifiers names the properties that no modifier sets, and the places of a new one.
func TestSpec_Modifiers(t *testing.T) {
	l := core.PerSecond(10)
	window, places, quota := core.SlidingWindow("r", l), core.InFlight("r", 5), core.Quota("r", core.Daily(5))
	missing := map[string]bool{}
	for field := range reflect.TypeFor[core.Spec]().Fields() {
		missing[field.Name] = true
	}
	for _, field := range []string{"Name", "Algorithm", "Limit", "Label"} { // arguments of constructors, and one without a modifier
		delete(missing, field)
	}
	for _, c := range []struct {
		field           string
		plain, modified core.Rule
	}{
		{"Plans", window, window.Plan("gold", l)},
		{"Soft", window, window.Soft(10)},
		{"FromFirst", core.FixedWindow("r", l), core.FixedWindow("r", l).FromFirst()},
		{"SubWindows", window, window.SubWindows(10)},
		{"ByCost", places, places.ByCost()},
		{"Hold", places, places.Hold(time.Minute)},
		{"MaxHold", places, places.MaxHold(time.Hour)},
		{"Location", quota, quota.In(time.FixedZone("here", 3600))},
		{"Anchor", quota, quota.Anchor(func(context.Context, string) time.Time { return time.Time{} })},
		{"Shadow", window, window.Shadow()},
		{"Unit", window, window.Unit("tokens")},
		{"Spare", window, window.Elastic(idle, 2)},
		{"UpTo", window, window.Elastic(idle, 2)},
	} {
		value := func(r core.Rule) any { return reflect.ValueOf(r.Spec()).FieldByName(c.field).Interface() }
		if reflect.DeepEqual(value(c.plain), value(c.modified)) {
			t.Errorf("%s: the modifier changes nothing", c.field)
		}
		delete(missing, c.field)
	}
	for field := range missing {
		t.Errorf("Spec.%s has no case here: see \"a property of a rule\" in CONTRIBUTING.md", field)
	}
}
