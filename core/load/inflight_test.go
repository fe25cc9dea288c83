package load_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core/load"
)

func TestInFlightCounts(t *testing.T) {
	f := load.NewInFlight(4)
	for i, step := range []struct {
		do    func()
		count int
		spare float64
	}{
		{func() {}, 0, 1},
		{f.Begin, 1, 0.75},
		{f.Begin, 2, 0.5},
		{f.End, 1, 0.75},
		{f.Begin, 2, 0.5},
		{f.Begin, 3, 0.25},
		{f.Begin, 4, 0},
		{f.Begin, 5, 0},
		{f.End, 4, 0},
		{f.End, 3, 0.25},
	} {
		step.do()
		if f.Count() != step.count || f.Spare() != step.spare {
			t.Fatalf("step %d: %d in flight, %v to spare, want %d and %v", i, f.Count(), f.Spare(), step.count, step.spare)
		}
	}
}

func TestInFlightIsNeverNegative(t *testing.T) {
	f := load.NewInFlight(2)
	f.End()
	f.End()
	if f.Count() != 0 || f.Spare() != 1 {
		t.Errorf("after an End without a Begin: %d in flight, %v to spare", f.Count(), f.Spare())
	}
	if f.Begin(); f.Count() != 1 {
		t.Errorf("the next Begin counts to %d, want 1", f.Count())
	}
}

func TestTheZeroInFlightHasNothingToSpare(t *testing.T) {
	var f load.InFlight
	if got := f.Spare(); got != 0 {
		t.Errorf("idle: %v to spare, want 0", got)
	}
	f.Begin()
	if f.Count() != 1 || f.Spare() != 0 {
		t.Errorf("after a Begin: %d in flight, %v to spare, want 1 and 0", f.Count(), f.Spare())
	}
	f.End()
	if f.Count() != 0 {
		t.Errorf("after its End: %d in flight", f.Count())
	}
}

func TestNewInFlightPanics(t *testing.T) {
	for _, n := range []int{0, -1} {
		mustPanic(t, "load: NewInFlight: max is less than 1", func() { load.NewInFlight(n) })
	}
}

// Ends without a Begin run among pairs of both. A count that was looked at and then
// changed in two steps would fall below 0.
func TestInFlightFromManyGoroutines(t *testing.T) {
	f := load.NewInFlight(8)
	var over atomic.Bool
	var pairs, strays sync.WaitGroup
	for range 4 {
		strays.Go(func() {
			for !over.Load() {
				f.End()
			}
		})
		pairs.Go(func() {
			for range 20_000 {
				f.Begin()
				if s := f.Spare(); !(s >= 0 && s <= 1) || f.Count() < 0 {
					t.Errorf("%d in flight, %v to spare", f.Count(), s)
					return
				}
				f.End()
			}
		})
	}
	pairs.Wait()
	over.Store(true)
	strays.Wait()
	if f.Count() != 0 {
		t.Errorf("%d in flight after all have ended", f.Count())
	}
}

// Every pair leaves the count as it was, however they meet.
func TestInFlightLosesNothing(t *testing.T) {
	f := load.NewInFlight(8)
	f.Begin()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5000 {
				f.Begin()
				f.End()
			}
		})
	}
	all.Wait()
	if f.Count() != 1 {
		t.Errorf("%d in flight, want the one that has not ended", f.Count())
	}
}
