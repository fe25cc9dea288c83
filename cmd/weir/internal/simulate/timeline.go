package simulate

// maxBins is the largest number of bins of a [Timeline].
const maxBins = 120

// A Timeline counts the events of equal spans of time. Its spans become twice as long whenever there would be
// more than 120 of them. The zero Timeline is empty.
type Timeline struct {
	Begin, Width int64 // Unix microseconds, and microseconds
	Bins         []Bin
}

// A Bin has the counts of one span.
type Bin struct{ Admitted, Denied uint64 }

// add counts an event. Times must not decrease.
func (t *Timeline) add(at int64, admitted bool) {
	if t.Bins == nil {
		t.Begin, t.Width = at, 100_000
	}
	for (at-t.Begin)/t.Width >= maxBins {
		t.Width *= 2
		half := t.Bins[:0]
		for i := 0; i < len(t.Bins); i += 2 {
			b := t.Bins[i]
			if i+1 < len(t.Bins) {
				b.Admitted += t.Bins[i+1].Admitted
				b.Denied += t.Bins[i+1].Denied
			}
			half = append(half, b)
		}
		t.Bins = half
	}
	for i := int((at - t.Begin) / t.Width); i >= len(t.Bins); {
		t.Bins = append(t.Bins, Bin{})
	}
	b := &t.Bins[(at-t.Begin)/t.Width]
	if admitted {
		b.Admitted++
	} else {
		b.Denied++
	}
}
