package driver_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

// start is the time of the first charge in the tests.
const start = int64(1 << 50)

// compile compiles d, with a name if it has none.
func compile(t testing.TB, d driver.Definition) *driver.Compiled {
	t.Helper()
	if d.Name == "" {
		d.Name = "rule"
	}
	c, err := d.Compile()
	if err != nil {
		t.Fatalf("Compile of %+v: %v", d, err)
	}
	return c
}

// rule compiles events per period, in microseconds. A SlidingWindow has 10 sub-windows.
func rule(t testing.TB, a driver.Algorithm, events int, period int64) *driver.Compiled {
	t.Helper()
	d := driver.Definition{Algorithm: a, Events: events, Per: time.Duration(period) * time.Microsecond}
	if a == driver.SlidingWindow {
		d.SubWindows = 10
	}
	return compile(t, d)
}

// algorithms are those of rules with a number of events and a period or a Hold.
var algorithms = slices.DeleteFunc(testkit.Names(), func(a driver.Algorithm) bool { return a == driver.Quota || a == driver.Pause })

// A key is a store of one State.
type key struct {
	rule  *driver.Compiled
	state driver.State
}

// do applies c to the State at now, under the rule of the key.
func (k *key) do(c driver.Charge, now int64) driver.Verdict { return k.charge(&c, now) }

// charge is do, and leaves the receipt in c.
func (k *key) charge(c *driver.Charge, now int64) driver.Verdict {
	c.Rule = k.rule
	r := c.Read(k.state, now)
	if !c.Op.Asks() {
		k.state = c.Apply(k.state, &r, now)
		c.Answer(&r, false)
		return c.Verdict
	}
	fits := c.Fits(&r)
	k.state, _ = c.Commit(k.state, &r, now, fits)
	c.Answer(&r, fits)
	return c.Verdict
}

// charge applies c to s at now, as [key.charge] does.
func charge(c *driver.Charge, s driver.State, now int64) driver.State {
	k := key{c.Rule, s}
	k.charge(c, now)
	return k.state
}

// spend charges cost, and returns the receipt.
func (k *key) spend(cost int, now int64) (v driver.Verdict, m driver.Receipt) {
	c := driver.Charge{Cost: cost}
	v = k.charge(&c, now)
	return v, c.Receipt
}

func inUse(c *driver.Compiled, r driver.Reading) bool {
	return r.Count > 0 || r.Used != driver.Span{} || c.Algorithm == driver.Pause && r.Left > 0
}

// read returns the Reading of s at now for a charge of cost.
func read(rule *driver.Compiled, s driver.State, now, cost int64) driver.Reading {
	return (&driver.Charge{Rule: rule, Cost: int(cost)}).Read(s, now)
}
