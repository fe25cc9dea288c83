package simulate

import (
	"maps"
	"slices"
)

// A Distribution counts values that are not negative. Values of more than three digits are rounded up to
// three, so that it takes little memory. The zero Distribution is empty.
type Distribution struct {
	counts map[int64]uint64
	Count  uint64
	Max    int64 // not rounded
}

// Add counts a value.
func (d *Distribution) Add(v int64) {
	if d.counts == nil {
		d.counts = make(map[int64]uint64)
	}
	d.counts[rounded(v)]++
	d.Count++
	d.Max = max(d.Max, v)
}

func rounded(v int64) int64 {
	unit := int64(1)
	for v/unit >= 1000 {
		unit *= 10
	}
	return (v + unit - 1) / unit * unit
}

// Quantile returns the smallest counted value that at least the part q of all values does not exceed, or
// zero if there is none.
func (d *Distribution) Quantile(q float64) int64 {
	sum := uint64(0)
	for _, v := range slices.Sorted(maps.Keys(d.counts)) {
		if sum += d.counts[v]; float64(sum) >= q*float64(d.Count) {
			return min(v, d.Max)
		}
	}
	return d.Max
}
