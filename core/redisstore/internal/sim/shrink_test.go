package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// shrinkTime is how long to look for faults that do not matter.
const shrinkTime = 20 * time.Second

// report describes a run that has failed.
func report(t *testing.T, failed *simulation, seed uint64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "scenario %s, seed %d, %v\n", failed.scenario.name, seed, failed.failed)
	drop, all := numbers(*dropped), schedule(failed.scenario, seed)
	if !*noShrink {
		drop, failed = shrink(t, failed, seed)
		fmt.Fprintf(&b, "%d of %d faults are enough: %v\n", len(all)-len(drop), len(all), failed.failed)
	}
	var faults []fault
	for i, f := range all {
		if !slices.Contains(drop, i) {
			faults = append(faults, f)
		}
	}
	fmt.Fprintf(&b, "faults: %s\n", names(faults))
	fmt.Fprintf(&b, "again: %s\n", command(failed.scenario, seed, drop))
	for _, l := range failed.lines[max(0, len(failed.lines)-30):] {
		fmt.Fprintln(&b, l)
	}
	return b.String()
}

// shrink leaves out faults while the run still violates the same invariant: the first half of them, and then
// one after the other.
func shrink(t *testing.T, failed *simulation, seed uint64) (drop []int, last *simulation) {
	drop, last = numbers(*dropped), failed
	all := schedule(failed.scenario, seed)
	begun := time.Now()
	try := func(more ...int) {
		if time.Since(begun) > shrinkTime {
			return
		}
		less := append(slices.Clone(drop), more...)
		for range 2 { // a run may differ from the one before
			s := run(t, failed.scenario, seed, less, false)
			if s.failed != nil && s.failed.invariant == failed.failed.invariant {
				drop, last = less, s
				return
			}
		}
	}
	var late []int // faults after the violation do not matter
	for i, f := range all {
		if f.at > failed.failed.at && !slices.Contains(drop, i) {
			late = append(late, i)
		}
	}
	drop = append(drop, late...)
	var half []int
	for i := range len(all) / 2 {
		if !slices.Contains(drop, i) {
			half = append(half, i)
		}
	}
	if len(half) > 1 {
		try(half...)
	}
	for i := len(all) - 1; i >= 0; i-- {
		if !slices.Contains(drop, i) {
			try(i)
		}
	}
	slices.Sort(drop)
	return drop, last
}
