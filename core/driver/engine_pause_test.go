package driver_test

import (
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// maxPause is the length of the longest pause.
const maxPause = 366 * 24 * time.Hour

// A pauseStep is a charge of a pause, its result and the State after it. Times are in seconds after start.
type pauseStep struct {
	at     int64
	op     driver.Op
	length time.Duration // of a Debit
	cost   int

	rest int64 // of the pause, after the charge; 0 if there is none
	// The State after the charge; both are 0 if it is the zero State.
	stored, written int64
}

func TestPause(t *testing.T) {
	const spend, peek, reset, undo, credit, debit = driver.Spend, driver.Peek, driver.Reset, driver.Undo, driver.Credit, driver.Debit
	const year = int64(maxPause / time.Second)
	for _, c := range []struct {
		name  string
		steps []pauseStep
	}{
		{"open", []pauseStep{
			{0, spend, 0, 1, 0, 0, 0},
			{1, peek, 0, 1000, 0, 0, 0},
			{2, spend, 0, math.MaxInt, 0, 0, 0},
			{3, credit, 0, 5, 0, 0, 0},
			{3, undo, 0, 5, 0, 0, 0},
			{3, reset, 0, 1, 0, 0, 0},
			{3, debit, 0, 1, 0, 0, 0},
			{3, debit, time.Microsecond - 1, 1, 0, 0, 0}, // is rounded down
		}},
		{"a pause", []pauseStep{
			{0, debit, time.Minute, 1, 60, 60, 0},
			{0, spend, 0, 1, 60, 60, 0},
			{10, peek, 0, math.MaxInt, 50, 60, 0},
			{59, spend, 0, 1000, 1, 60, 0},
			{60, spend, 0, 1, 0, 60, 0}, // is not written: the Store forgets the State
			{61, peek, 0, 1, 0, 60, 0},
			{62, debit, time.Second, 1, 1, 63, 62},
			{90, debit, 0, 1, 0, 63, 62},
		}},
		{"the later end holds", []pauseStep{
			{0, debit, time.Minute, 1, 60, 60, 0},
			{10, debit, 50 * time.Second, 1, 50, 60, 10},
			{20, debit, 30 * time.Second, 1, 40, 60, 20},
			{30, debit, time.Minute, 1000, 60, 90, 30},
			{40, debit, 0, 7, 50, 90, 40},
		}},
		{"only a reset ends it", []pauseStep{
			{0, debit, time.Minute, 1, 60, 60, 0},
			{1, credit, 0, 1000, 59, 60, 0},
			{2, undo, 0, 1000, 58, 60, 0},
			{3, reset, 0, 1, 0, 0, 0},
			{4, reset, 0, 1, 0, 0, 0},
			{5, spend, 0, 1, 0, 0, 0},
		}},
		{"steps back", []pauseStep{
			{100, debit, time.Minute, 1, 60, 160, 100},
			{0, credit, 0, 1, 60, 160, 100}, // writes nothing
			{0, undo, 0, 1, 60, 160, 100},
			{10, spend, 0, 1, 60, 70, 10},
			{5, peek, 0, 1, 60, 65, 5},
			{30, peek, 0, 1, 35, 65, 5},
			{0, debit, 0, 1, 60, 60, 0},
			{-50, debit, time.Second, 1, 60, 10, -50},
			{-60, debit, time.Hour, 1, 3600, 3540, -60},
			{-70, reset, 0, 1, 0, 0, 0},
		}},
		{"the longest", []pauseStep{
			{0, debit, maxPause, 1, year, year, 0},
			{0, debit, maxPause + time.Second, 1, year, year, 0},
			{1, spend, 0, 1, year - 1, year, 0},
			{2, debit, 2 * maxPause, 1, year, year + 2, 2},
			{3, debit, math.MaxInt64, 1, year, year + 3, 3},
			{-5, peek, 0, 1, year, year - 5, -5},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := key{rule: compile(t, driver.Definition{Algorithm: driver.Pause})}
			for i, s := range c.steps {
				now, paused := start+s.at*1_000_000, k.state != (driver.State{})
				charge := driver.Charge{Op: s.op, Cost: s.cost, Pause: s.length}
				if s.op == undo {
					charge.Receipt = driver.Receipt{At: now}
				}
				receipt := charge.Receipt
				got, rest := k.charge(&charge, now), time.Duration(s.rest)*time.Second
				want := driver.Verdict{Rule: k.rule, Done: !s.op.Asks(), Allowed: true, Remaining: math.MaxInt, Found: s.op == reset && paused}
				if rest > 0 {
					want.Remaining, want.ResetAfter, want.Window = 0, rest, rest
					if s.op.Asks() {
						want.Allowed, want.RetryAfter = false, rest
					}
				}
				if got != want || charge.Receipt != receipt || charge.Cost != s.cost {
					t.Fatalf("step %d:\n got %+v with the receipt %+v\nwant %+v", i, got, charge.Receipt, want)
				}
				state := driver.State{Time: start + s.stored*1_000_000, Debt: start + s.written*1_000_000}
				if s.stored == 0 && s.written == 0 {
					state = driver.State{}
				}
				if k.state != state || k.state.Size() != 0 || k.state.Coarsen() != k.state {
					t.Fatalf("step %d: got the State %+v, want %+v", i, k.state, state)
				}
				k.state = decoded(t, k.state)
			}
		})
	}
}

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
