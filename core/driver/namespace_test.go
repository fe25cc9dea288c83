package driver_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

// named returns a definition of 10 events a second.
func named(name string, changes ...func(d *driver.Definition)) driver.Definition {
	d := valid(driver.TokenBucket)
	d.Name = name
	for _, change := range changes {
		change(&d)
	}
	return d
}

func twenty(d *driver.Definition) { d.Events, d.Text = 20, "20/s" }

func pro(d *driver.Definition) { d.Plan = "pro" }

// A conflict changes nothing: neither the rule in conflict nor the other rules of the call.
func TestNamespace_Declare(t *testing.T) {
	type definitions = []driver.Definition
	a, b, c, d := named("a"), named("b"), named("c"), named("d")
	var n driver.Namespace
	for i, step := range []struct {
		changes []driver.Change
		taken   string // the name that conflicts
	}{
		{nil, ""},
		{[]driver.Change{{New: definitions{a, b}}}, ""},
		{[]driver.Change{{New: definitions{a}}}, ""},
		{[]driver.Change{{New: definitions{named("a", func(d *driver.Definition) { d.Burst, d.Text = 10, "text" })}}}, ""},
		{[]driver.Change{{New: definitions{named("c", twenty), named("b", twenty)}}}, "b"},
		{[]driver.Change{{New: definitions{c}}}, ""},
		{[]driver.Change{{New: definitions{named("c", func(d *driver.Definition) { d.Algorithm = driver.LeakyBucket })}}}, "c"},
		{[]driver.Change{{New: definitions{named("c", func(d *driver.Definition) { d.Shadow = true })}}}, "c"},
		{[]driver.Change{{New: definitions{d, named("d", twenty)}}}, "d"},
		{[]driver.Change{{New: definitions{named("d", twenty)}}}, ""},

		{[]driver.Change{{New: definitions{named("a", twenty, pro)}}}, ""}, // a plan has a definition of its own
		{[]driver.Change{{New: definitions{named("a", pro)}}}, "a"},
		{[]driver.Change{{New: definitions{named("a", twenty, pro)}}}, ""},

		{[]driver.Change{{Old: definitions{a}, New: definitions{named("a", twenty)}}}, "a"}, // three limiters have it
		{[]driver.Change{{Old: definitions{b}, New: definitions{named("b", twenty)}}}, ""},
		{[]driver.Change{{New: definitions{b}}}, "b"},
		{[]driver.Change{{Old: definitions{a}, New: definitions{named("a", twenty)}}, {Old: definitions{a, a}, New: definitions{b}}}, "b"},
		{[]driver.Change{{Old: definitions{a}, New: definitions{named("a", twenty)}}, {Old: definitions{a, a}, New: definitions{named("a", twenty)}}}, ""},
		{[]driver.Change{{New: definitions{a}}}, "a"},
		{[]driver.Change{{Old: definitions{c}, New: nil}}, ""},
		{[]driver.Change{{New: definitions{named("c", twenty)}}}, ""}, // no limiter had it any more
	} {
		err := n.Declare(step.changes...)
		var conflict *driver.RuleError
		switch {
		case step.taken == "":
			if err != nil {
				t.Errorf("step %d: got %v", i, err)
			}
		case !errors.Is(err, driver.ErrRuleConflict) || errors.Is(err, driver.ErrInvalidRule) || !errors.As(err, &conflict) || conflict.Rule != step.taken || conflict.Field != "name":
			t.Errorf("step %d: got %v, expected a conflict of the name %s", i, err, step.taken)
		}
		if i == 4 {
			if want := `is taken on this store by another rule: token_bucket "b" of 10 in 1s, burst 10, and now 20/s`; conflict.Reason != want {
				t.Errorf("got the reason %s, expected %s", conflict.Reason, want)
			}
		}
	}
}

func TestNamespace_Declare_Concurrent(t *testing.T) {
	var n driver.Namespace
	testkit.Concurrently(8, func(i int) {
		if err := n.Declare(driver.Change{New: []driver.Definition{named(fmt.Sprint(i % 2))}}); err != nil {
			t.Error(err)
		}
	})
}
