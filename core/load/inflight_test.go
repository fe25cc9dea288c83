package load_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/load"
)

func TestInFlight(t *testing.T) {
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
			t.Fatalf("step %d: got %d in flight and %v to spare, want %d and %v", i, f.Count(), f.Spare(), step.count, step.spare)
		}
	}
}

func TestInFlight_End_WithoutBegin(t *testing.T) {
	f := load.NewInFlight(2)
	f.End()
	f.End()
	if f.Count() != 0 || f.Spare() != 1 {
		t.Errorf("got %d in flight and %v to spare, want 0 and 1", f.Count(), f.Spare())
	}
	if f.Begin(); f.Count() != 1 {
		t.Errorf("after a Begin: got %d in flight, want 1", f.Count())
	}
}

func TestInFlight_Zero(t *testing.T) {
	var f load.InFlight
	for _, step := range []struct {
		do    func()
		count int
	}{{func() {}, 0}, {f.Begin, 1}, {f.End, 0}} {
		if step.do(); f.Count() != step.count || f.Spare() != 0 {
			t.Errorf("got %d in flight and %v to spare, want %d and 0", f.Count(), f.Spare(), step.count)
		}
	}
}

func TestNewInFlight_Panics(t *testing.T) {
	for _, n := range []int{0, -1} {
		testkit.Panics(t, "load: NewInFlight: max is less than 1", func() { load.NewInFlight(n) })
	}
}

// Calls of End without a Begin run beside pairs of both. An End that reads and changes the count in
// two steps would make it negative.
func TestInFlight_ConcurrentWithExtraEnds(t *testing.T) {
	f := load.NewInFlight(8)
	var over atomic.Bool
	var pairs, ends sync.WaitGroup
	for range 4 {
		ends.Go(func() {
			for !over.Load() {
				f.End()
			}
		})
		pairs.Go(func() {
			for range 20_000 {
				f.Begin()
				if s := f.Spare(); !(s >= 0 && s <= 1) || f.Count() < 0 {
					t.Errorf("got %d in flight and %v to spare", f.Count(), s)
					return
				}
				f.End()
			}
		})
	}
	pairs.Wait()
	over.Store(true)
	ends.Wait()
	if f.Count() != 0 {
		t.Errorf("after the last End: got %d in flight, want 0", f.Count())
	}
}

// Concurrent pairs of Begin and End do not change the count.
func TestInFlight_Concurrent(t *testing.T) {
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
		t.Errorf("got %d in flight, want the one that has not ended", f.Count())
	}
}
