package simulate

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

// An admitted is a number of units that were admitted at a time.
type admitted struct{ at, units int64 }

// most returns the most units in any span of the length per.
func most(all []admitted, per int64) (most int64) {
	sum, first := int64(0), 0
	for _, a := range all {
		sum += a.units
		for all[first].at <= a.at-per {
			sum -= all[first].units
			first++
		}
		most = max(most, sum)
	}
	return most
}

// The worst window is that of a count of all windows.
func TestWindow(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		per := time.Duration(1+random.IntN(50)) * time.Microsecond
		rule := &Rule{}
		var c Client
		var all []admitted
		now := int64(0)
		for range 300 {
			now += random.Int64N(20)
			cost := 1 + random.IntN(3)
			c.window(rule, core.Per(10, per)).add(&Event{At: now, Key: "k"}, cost, 0)
			all = append(all, admitted{now, int64(cost)})
		}
		if want := most(all, per.Microseconds()); rule.Worst.Admitted != want || rule.Worst.AtLeast {
			t.Fatalf("period %v: got %d (at least: %t), want %d", per, rule.Worst.Admitted, rule.Worst.AtLeast, want)
		}
	}
}

// A window of more than maxRuns runs takes bounded memory. Its worst count is at most the real one, and less by
// the units of some runs that were joined with one that has left the window.
func TestWindow_Joined(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		const per = 100_000
		rule := &Rule{}
		var c Client
		var all []admitted
		now, largest := int64(0), int64(0)
		for i := range 30_000 {
			now += random.Int64N(1 + random.Int64N(40))
			cost := 1 + random.Int64N(3)
			w := c.window(rule, core.Per(10, per*time.Microsecond))
			w.add(&Event{At: now, Key: "k"}, int(cost), 0)
			all = append(all, admitted{now, cost})
			if i%100 > 0 {
				continue
			}
			sum := int64(0)
			for _, r := range w.runs[w.first:] {
				largest = max(largest, r.units)
				sum += r.units
			}
			if sum != w.sum || len(w.runs) > maxRuns {
				t.Fatalf("got %d runs, and a sum of %d instead of %d", len(w.runs), w.sum, sum)
			}
		}
		want, got := most(all, per), rule.Worst
		if got.Admitted > want || got.Admitted < want-largest || !got.AtLeast {
			t.Errorf("got %d (at least: %t), want %d, or up to %d less", got.Admitted, got.AtLeast, want, largest)
		}
	}
}

// The worst window of a rule is marked if any window of it was joined, also if the worst one was not.
func TestWindow_AtLeast(t *testing.T) {
	rule := &Rule{}
	var a, b Client
	limit := core.PerSecond(10)
	a.window(rule, limit).add(&Event{Key: "a"}, 1_000_000, 0)
	for i := range int64(maxRuns) {
		if rule.Worst.AtLeast {
			t.Fatalf("the window is joined after %d runs", i)
		}
		b.window(rule, limit).add(&Event{At: i, Key: "b"}, 1, 0)
	}
	b.window(rule, limit).add(&Event{At: maxRuns, Key: "b"}, 1, 0)
	if w := rule.Worst; w.Key != "a" || !w.AtLeast {
		t.Errorf("got %+v", w)
	}
	a.window(rule, limit).add(&Event{At: maxRuns, Key: "a"}, 1, 0)
	if w := rule.Worst; w.Key != "a" || !w.AtLeast || w.Admitted != 1_000_001 {
		t.Errorf("got %+v", w)
	}
}

// Events of a leaky bucket count at their departures. Events count under the limit in force only, and the worst
// window is relative to it.
func TestWindow_Limits(t *testing.T) {
	for name, test := range map[string]struct {
		limits []core.Limit
		costs  []int
		delays []time.Duration
		want   Window
	}{
		"one": {[]core.Limit{core.PerSecond(2)}, []int{1}, nil, Window{Admitted: 1, Limit: core.PerSecond(2), Key: "k"}},
		"larger limit": {
			[]core.Limit{core.PerSecond(2), core.PerSecond(100)}, []int{1, 40}, nil, Window{Admitted: 1, Limit: core.PerSecond(2), Key: "k"},
		},
		"smaller limit": {
			[]core.Limit{core.PerSecond(100), core.PerSecond(2)}, []int{40, 1}, nil, Window{Admitted: 1, Limit: core.PerSecond(2), Key: "k"},
		},
		"delay": {
			[]core.Limit{core.PerSecond(2), core.PerSecond(2)}, []int{1, 5}, []time.Duration{0, time.Second}, Window{Admitted: 5, Limit: core.PerSecond(2), Begin: 1e6, Key: "k"},
		},
		"delay within the window": {
			[]core.Limit{core.PerSecond(2), core.PerSecond(2)}, []int{1, 5}, []time.Duration{0, time.Second - time.Microsecond}, Window{Admitted: 6, Limit: core.PerSecond(2), Key: "k"},
		},
	} {
		rule := &Rule{}
		var c Client
		for i, l := range test.limits {
			delay := time.Duration(0)
			if test.delays != nil {
				delay = test.delays[i]
			}
			c.window(rule, l).add(&Event{Key: "k"}, test.costs[i], delay)
		}
		if rule.Worst != test.want {
			t.Errorf("%s: got %+v, want %+v", name, rule.Worst, test.want)
		}
	}
}
