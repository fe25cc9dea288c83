package load_test

import (
	"math"
	"testing"

	"github.com/weir-go/weir/core/load"
)

func constant(x float64) func() float64 { return func() float64 { return x } }

func TestMin(t *testing.T) {
	for _, c := range []struct {
		signals []float64
		want    float64
	}{
		{[]float64{0.3}, 0.3},
		{[]float64{0.3, 0.2, 0.9}, 0.2},
		{[]float64{1, 1}, 1},
		{[]float64{2, 7}, 1},
		{[]float64{0.5, -3}, 0},
		{[]float64{0.5, math.NaN()}, 0},
		{[]float64{math.NaN(), 0.5}, 0},
		{[]float64{math.Inf(1), 0.5}, 0.5},
		{[]float64{math.Inf(-1), 0.5}, 0},
	} {
		var signals []func() float64
		for _, x := range c.signals {
			signals = append(signals, constant(x))
		}
		if got := load.Min(signals...)(); got != c.want {
			t.Errorf("%v: got %v, want %v", c.signals, got, c.want)
		}
	}
}

func TestMin_CallsEverySignal(t *testing.T) {
	calls := 0
	count := func() float64 { calls++; return 0 }
	if load.Min(count, count, count)(); calls != 3 {
		t.Errorf("got %d calls, want 3", calls)
	}
}

func TestMin_CopiesArguments(t *testing.T) {
	signals := []func() float64{constant(0.5)}
	least := load.Min(signals...)
	signals[0] = constant(0.1)
	if got := least(); got != 0.5 {
		t.Errorf("after the slice of the caller has changed: got %v, want 0.5", got)
	}
}
