package load_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core/load"
)

func TestSignals_Allocations(t *testing.T) {
	for name, signal := range map[string]func() float64{
		"IdleCPU": load.IdleCPU(),
		"Smooth":  load.Smooth(constant(0.5), time.Nanosecond), // a sample in every call
		"Min":     load.Min(load.IdleCPU(), constant(0.5), load.Smooth(constant(0.5), time.Second)),
	} {
		if n := testing.AllocsPerRun(1000, func() { signal() }); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", name, n)
		}
	}
}
