package inspect

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// A chart has a bar for each minute, which consists of layers. It has no text: the browser enlarges the
// bars without enlarging the text beside them.
type chart struct {
	ID, Title, Unit string
	Layers          []layer
	Bars            []bar
	Top             uint64 // the value at the upper edge
	Outages         []bar  // minutes in which a backup decided
	From            string // the time of the left edge
}

// A layer is a part of all bars.
type layer struct {
	Class, Name string
	Total       uint64
	values      []uint64 // of the minutes
}

// A bar is the part of a drawing that belongs to a minute.
type bar struct {
	X, Width int
	Title    string
	Parts    []part
}

// A part is the part of a bar that belongs to a layer.
type part struct {
	Class     string
	Y, Height float64
}

// The sizes of a drawing, in the units of the viewBox of page.html.
const (
	slot       = 10 // the width of a minute
	chartWidth = minutes * slot
	chartTall  = 100
)

// newChart returns a chart of layers, whose values are those of the intervals. Layers without values are
// omitted, except for the first one.
func newChart(id, title, unit string, intervals []interval, layers ...layer) chart {
	c := chart{ID: id, Title: title, Unit: unit, From: intervals[len(intervals)-1].to.Add(-minutes * time.Minute).Format("15:04")}
	sums := make([]uint64, len(intervals))
	highest := uint64(0)
	for i, l := range layers {
		l.Total = 0
		for at, v := range l.values {
			l.Total += v
			sums[at] += v
			highest = max(highest, sums[at])
		}
		if i == 0 || l.Total > 0 {
			c.Layers = append(c.Layers, l)
		}
	}
	c.Top = ceiling(highest)
	for at := range intervals {
		m := &intervals[at]
		x := chartWidth - slot*(len(intervals)-at)
		b := bar{X: x + 1, Width: slot - 2}
		var texts []string
		y := float64(chartTall)
		for _, l := range c.Layers {
			if l.values[at] == 0 {
				continue
			}
			height := chartTall * float64(l.values[at]) / float64(c.Top)
			y -= height
			b.Parts = append(b.Parts, part{l.Class, y, height})
			texts = append(texts, fmt.Sprintf("%s %d", l.Name, l.values[at]))
		}
		b.Title = m.from.Format("15:04:05") + ": " + strings.Join(texts, ", ")
		if m.outage {
			c.Outages = append(c.Outages, bar{X: x, Width: slot})
		}
		if len(b.Parts) > 0 {
			c.Bars = append(c.Bars, b)
		}
	}
	return c
}

// Description returns the content of c in words, for screen readers.
func (c chart) Description() string {
	texts := make([]string, len(c.Layers))
	for i, l := range c.Layers {
		texts[i] = fmt.Sprintf("%s %d", l.Name, l.Total)
	}
	return "In the last hour: " + strings.Join(texts, ", ") + "."
}

// ceiling returns the next number like 10, 20 or 50.
func ceiling(n uint64) uint64 {
	if n <= 5 {
		return 5
	}
	step := uint64(math.Pow10(int(math.Log10(float64(n)))))
	for _, factor := range []uint64{1, 2, 5, 10, 20} {
		if n <= factor*step {
			return factor * step
		}
	}
	return n
}
