package simulate

import (
	"slices"
	"time"
)

// maxBins is the largest number of bins of a [Timeline].
const maxBins = 72

// widths are the lengths of the spans of a [Timeline], each a multiple of the one before. Longer ones are twice as
// long as the one before.
var widths = [...]time.Duration{
	100 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// A Timeline counts the events of equal spans of time, the shortest of widths for which there are at most 72 spans.
// The zero Timeline is empty.
type Timeline struct {
	Begin, Width int64 // Unix microseconds, and microseconds
	Bins         []Bin
}

// A Bin has the counts of one span.
type Bin struct{ Admitted, Denied uint64 }

// add counts an event. Times must not decrease.
func (t *Timeline) add(at int64, admitted bool) {
	if t.Bins == nil {
		t.Begin, t.Width = at, widths[0].Microseconds()
	}
	for (at-t.Begin)/t.Width >= maxBins {
		t.widen()
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

// widen joins bins, so that their spans have the next length.
func (t *Timeline) widen() {
	width := 2 * t.Width
	for _, w := range widths {
		if w.Microseconds() > t.Width {
			width = w.Microseconds()
			break
		}
	}
	n := int(width / t.Width)
	joined := t.Bins[:0]
	for part := range slices.Chunk(t.Bins, n) {
		var sum Bin
		for _, b := range part {
			sum.Admitted += b.Admitted
			sum.Denied += b.Denied
		}
		joined = append(joined, sum)
	}
	t.Bins, t.Width = joined, width
}
