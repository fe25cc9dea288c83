package rules

import (
	"fmt"
	"math"
	"testing"

	"github.com/weir-go/weir/internal/testkit"
)

func TestInPercent_Vectors(t *testing.T) {
	for _, test := range []struct {
		policy, key string
		n           float64
	}{
		{"api", "user:1", 2074},
		{"api", "user:2", 2581},
		{"login", "user:1", 1581},
		{"login", "203.0.113.7", 2565},
		{"login", "用户", 203},
	} {
		for percent, want := range map[float64]bool{
			0: false, test.n / 100: false, test.n/100 + 0.004: false, (test.n + 1) / 100: true, 100: true, math.Inf(1): true, math.NaN(): false, -1: false,
		} {
			if got := InPercent(test.policy, test.key, percent); got != want {
				t.Errorf("%s, %s, %v: got %t", test.policy, test.key, percent, got)
			}
		}
	}
}

// A larger percentage contains every key of a smaller one, and the expected number of keys.
func TestInPercent_Widening(t *testing.T) {
	testkit.WithoutRace(t)
	const keys = 20_000
	in := make([]bool, keys)
	for _, percent := range []float64{0, 0.01, 0.07, 0.29, 1, 5, 25, 33.33, 50, 99.99, 100} {
		n := 0
		for i := range in {
			now := InPercent("api", fmt.Sprint("user:", i), percent)
			if in[i] && !now {
				t.Fatalf("key %d is not in %v percent", i, percent)
			}
			if in[i] = now; now {
				n++
			}
		}
		expected := keys * percent / 100
		if diff := math.Abs(float64(n) - expected); diff > 5*math.Sqrt(expected*(1-percent/100)) {
			t.Errorf("got %d of %d keys in %v percent", n, keys, percent)
		}
	}
}

func TestInPercent_Alloc(t *testing.T) {
	testkit.WithoutRace(t)
	if n := testing.AllocsPerRun(100, func() { InPercent("api", "user:1", 50) }); n > 0 {
		t.Errorf("got %v allocations", n)
	}
}
