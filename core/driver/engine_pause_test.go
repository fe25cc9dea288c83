package driver_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A pause has no number of events that could be unlimited or blocked.
func TestDefinition_Check_Pause(t *testing.T) {
	d := driver.Definition{Name: "p", Algorithm: driver.Pause, Always: 1}
	if err := d.Check(); err != nil {
		t.Errorf("got %v, want no error", err)
	}
	if d.Soft = 10; d.Check() == nil {
		t.Error("got no error for a soft pause")
	}
}

// Commit changes the State of a pause if the clock has stepped back and the charge does not fit, and then only.
func TestPause_Commit(t *testing.T) {
	c := driver.Charge{Rule: compile(t, driver.Definition{Algorithm: driver.Pause}), Op: driver.Debit, Cost: 1, Pause: time.Minute}
	paused := (&key{rule: c.Rule}).apply(c, start)
	for _, row := range []struct {
		name    string
		state   driver.State
		now     int64
		fits    bool
		changed bool
	}{
		{"open", driver.State{}, start, true, false},
		{"paused", paused, start, false, false},
		{"ended", paused, start + 60_000_000, true, false},
		{"before it was written", paused, start - 1, false, true},
	} {
		for _, op := range []driver.Op{driver.Spend, driver.Peek} {
			for _, admitted := range []bool{true, false} {
				ask := driver.Charge{Rule: c.Rule, Op: op, Cost: 3}
				r := ask.Read(row.state, row.now)
				state, changed := ask.Commit(row.state, &r, row.now, admitted)
				if ask.Fits(&r) != row.fits || changed != row.changed || (state != row.state) != row.changed || ask.Receipt != (driver.Receipt{}) {
					t.Errorf("%s, op %d, admitted %t: got %+v, changed %t, with the receipt %+v", row.name, op, admitted, state, changed, ask.Receipt)
				}
			}
		}
	}
}

// apply returns the State after c, an op of Adjust.
func (k *key) apply(c driver.Charge, now int64) driver.State {
	k.do(c, now)
	return k.state
}

// Reduce leaves the cost to the other charges, or denies it.
func TestReduce_Pause(t *testing.T) {
	pause := compile(t, driver.Definition{Name: "pause", Algorithm: driver.Pause})
	shadow := compile(t, driver.Definition{Name: "shadow", Algorithm: driver.Pause, Shadow: true})
	window := rule(t, driver.FixedWindow, 10, 1_000_000)
	debit := driver.Charge{Op: driver.Debit, Cost: 1, Pause: time.Second}
	for _, row := range []struct {
		name   string
		rules  []*driver.Compiled
		paused bool
		want   int
	}{
		{"alone", []*driver.Compiled{pause}, false, 500},
		{"alone, paused", []*driver.Compiled{pause}, true, 1},
		{"with a window", []*driver.Compiled{pause, window}, false, 10},
		{"with a window, paused", []*driver.Compiled{window, pause}, true, 1},
		{"shadow, paused", []*driver.Compiled{shadow}, true, 500},
		{"shadow with a window, paused", []*driver.Compiled{window, shadow}, true, 10},
	} {
		var charges []driver.Charge
		var readings []driver.Reading
		for _, r := range row.rules {
			k, c := key{rule: r}, driver.Charge{Rule: r, AtMost: true, Cost: 500}
			if row.paused && r != window {
				k.do(debit, start)
			}
			charges, readings = append(charges, c), append(readings, c.Read(k.state, start))
		}
		driver.Reduce(charges, func(i int) driver.Reading { return readings[i] })
		for _, c := range charges {
			if c.Cost != row.want {
				t.Errorf("%s: got the cost %d of %v, want %d", row.name, c.Cost, c.Rule, row.want)
			}
		}
	}
}
