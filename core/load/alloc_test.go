package load_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core/load"
)

func TestSignals_Allocations(t *testing.T) {
	f := load.NewInFlight(100)
	for name, signal := range map[string]func() float64{
		"IdleCPU":  load.IdleCPU(),
		"InFlight": func() float64 { f.Begin(); defer f.End(); return f.Spare() },
		"Smooth":   load.Smooth(f.Spare, time.Nanosecond), // a sample in every call
		"Min":      load.Min(load.IdleCPU(), f.Spare, load.Smooth(f.Spare, time.Second)),
	} {
		if n := testing.AllocsPerRun(1000, func() { signal() }); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", name, n)
		}
	}
}
