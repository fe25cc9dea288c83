package simulate

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

const year = 365 * 24 * 3600 * second

func TestTimeline(t *testing.T) {
	type event struct {
		at       int64
		admitted bool
	}
	for name, test := range map[string]struct {
		events []event
		want   Timeline
	}{
		"empty": {nil, Timeline{}},
		"one":   {[]event{{Begin, true}}, Timeline{Begin, 100_000, []Bin{{1, 0}}}},
		"zero":  {[]event{{0, true}, {0, false}}, Timeline{0, 100_000, []Bin{{1, 1}}}},
		"two spans": {
			[]event{{Begin, true}, {Begin + 99_999, false}, {Begin + 100_000, false}, {Begin + 250_000, true}},
			Timeline{Begin, 100_000, []Bin{{1, 1}, {0, 1}, {1, 0}}},
		},
		"joined": {
			[]event{{0, true}, {100_000, false}, {200_000, true}, {maxBins * 100_000, true}},
			Timeline{0, 500_000, slices.Concat([]Bin{{2, 1}}, make([]Bin, maxBins/5-1), []Bin{{1, 0}})},
		},
		"years apart": {
			[]event{{0, true}, {1, false}, {100 * year, true}},
			Timeline{0, 512 * 24 * 3600 * second, slices.Concat([]Bin{{1, 1}}, make([]Bin, 70), []Bin{{1, 0}})},
		},
	} {
		var got Timeline
		for _, e := range test.events {
			got.add(e.at, e.admitted)
		}
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

// The spans are the shortest ones for which there are at most 72, also if they are reached at once.
func TestTimeline_Widths(t *testing.T) {
	last := widths[len(widths)-1].Microseconds()
	want := []int64{}
	for i, w := range widths {
		if i > 0 && (w <= widths[i-1] || w%widths[i-1] != 0) {
			t.Errorf("%v is no multiple of %v", w, widths[i-1])
		}
		want = append(want, w.Microseconds())
	}
	want = append(want, 2*last, 4*last, 8*last)
	var stepwise Timeline
	stepwise.add(Begin, true)
	for i, width := range want[:len(want)-1] {
		for at, expected := range map[int64]int64{maxBins*width - 1: width, maxBins * width: want[i+1]} {
			var got Timeline
			got.add(Begin, true)
			got.add(Begin+at, false)
			if got.Width != expected || got.Bins[0] != (Bin{1, 0}) || got.Bins[at/expected] != (Bin{0, 1}) || len(got.Bins) != int(at/expected)+1 {
				t.Errorf("after %d µs: got %+v, want spans of %d", at, got, expected)
			}
		}
		stepwise.add(Begin+maxBins*width, false)
		if stepwise.Width != want[i+1] || stepwise.Bins[0].Admitted != 1 {
			t.Errorf("after %d µs: got %+v, want spans of %d", maxBins*width, stepwise, want[i+1])
		}
	}
}

// Each bin has the events of its span, for any times.
func TestTimeline_Random(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		var got Timeline
		at := random.Int64N(Begin)
		var times []int64
		for range 1 + random.IntN(50) {
			got.add(at, at%3 != 0)
			times = append(times, at)
			at += random.Int64N(1 + random.Int64N(1+random.Int64N(year)))
		}
		want := make([]Bin, len(got.Bins))
		for _, at := range times {
			if b := &want[(at-times[0])/got.Width]; at%3 != 0 {
				b.Admitted++
			} else {
				b.Denied++
			}
		}
		if len(got.Bins) > maxBins || !slices.Equal(got.Bins, want) {
			t.Fatalf("%v: got %+v, want %+v", times, got, want)
		}
	}
}
