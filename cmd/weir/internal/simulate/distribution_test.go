package simulate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestDistribution(t *testing.T) {
	for name, test := range map[string]struct {
		values           []int64
		median, p99, max int64
	}{
		"empty":            {nil, 0, 0, 0},
		"zero":             {[]int64{0, 0}, 0, 0, 0},
		"one":              {[]int64{7}, 7, 7, 7},
		"two":              {[]int64{9, 1}, 1, 9, 9},
		"three":            {[]int64{9, 1, 4}, 4, 9, 9},
		"the same":         {[]int64{3, 3, 3, 8}, 3, 8, 8},
		"99 of 100":        {append(slices.Repeat([]int64{5}, 99), 6), 5, 5, 6},
		"98 of 100":        {append(slices.Repeat([]int64{5}, 98), 6, 7), 5, 6, 7},
		"rounded up":       {[]int64{1001, 5_000_000}, 1010, 5_000_000, 5_000_000},
		"at most the max":  {[]int64{123_456}, 123_456, 123_456, 123_456},
		"999 is exact":     {[]int64{999, 1000, 12345}, 1000, 12345, 12345},
		"largest":          {[]int64{1, 1 << 53}, 1, 1 << 53, 1 << 53},
		"a hundred years":  {[]int64{0, 100 * 366 * 86400 * 1e6}, 0, 100 * 366 * 86400 * 1e6, 100 * 366 * 86400 * 1e6},
		"rounding carries": {[]int64{9999, 100_000}, 10_000, 100_000, 100_000},
	} {
		var d Distribution
		for _, v := range test.values {
			d.Add(v)
		}
		if a, b, c := d.Quantile(0.5), d.Quantile(0.99), d.Max; a != test.median || b != test.p99 || c != test.max || d.Count != uint64(len(test.values)) {
			t.Errorf("%s: got %d, %d, %d of %d, want %d, %d, %d of %d", name, a, b, c, d.Count, test.median, test.p99, test.max, len(test.values))
		}
	}
}

// A quantile is at most one percent above that of all values. The memory does not depend on their number.
func TestDistribution_Random(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var d Distribution
	var all []int64
	for range 20_000 {
		v := int64(math.Exp(random.Float64() * 36))
		d.Add(v)
		all = append(all, v)
	}
	slices.Sort(all)
	for _, q := range []float64{0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[int(math.Ceil(q*float64(len(all))))-1]
		if got := d.Quantile(q); got < want || float64(got) > 1.01*float64(want)+1 {
			t.Errorf("%v: got %d, want %d", q, got, want)
		}
	}
	if n := len(d.counts); n > 16_000 {
		t.Errorf("got %d counts", n)
	}
}
