package load

import (
	"math"
	"testing"
)

func TestWhatIsNotKnownIsNotFree(t *testing.T) {
	var m meter
	for _, step := range []struct {
		say  string
		now  usage
		want float64
	}{
		{"one usage is not two", usage{10, 100}, 0},
		{"half was used", usage{15, 110}, 0.5},
		{"nothing was used", usage{15, 120}, 1},
		{"all was used", usage{25, 130}, 0},
		{"more was used than there was", usage{45, 140}, 0},
		{"there was nothing to use", usage{45, 140}, 0},
		{"both went back, and that is where the next one counts from", usage{1, 10}, 0},
		{"a quarter was used", usage{2, 14}, 0.75},
		{"the used went back alone", usage{1, 18}, 0},
		{"not a number", usage{math.NaN(), 22}, 0},
	} {
		if got := m.free(step.now); got != step.want {
			t.Errorf("%s: %v is free, want %v", step.say, got, step.want)
		}
	}
}

func TestClamp(t *testing.T) {
	for x, want := range map[float64]float64{
		0: 0, 0.25: 0.25, 1: 1, -0.1: 0, 1.1: 1, math.Inf(1): 1, math.Inf(-1): 0,
	} {
		if got := clamp(x); got != want {
			t.Errorf("clamp(%v) = %v, want %v", x, got, want)
		}
	}
	if got := clamp(math.NaN()); got != 0 {
		t.Errorf("clamp(NaN) = %v, want 0", got)
	}
}
