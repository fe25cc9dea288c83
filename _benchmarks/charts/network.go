package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/weir-go/weir/benchmarks/figures"
)

// The tables of the chart, one for each delay, and the parts of them that it shows.
const (
	networkTables  = "Decisions over a network, "
	networkCallers = ", 400 callers"
	networkColumn  = "x Unbatched"
)

// networkData returns the delays that were measured, and the kinds of limiters.
func networkData(all figures.Figures) (delays, kinds []string) {
	for _, table := range all.Tables() {
		delay, ok := strings.CutPrefix(table, networkTables)
		if !ok || !strings.HasSuffix(delay, "ms") {
			continue
		}
		delays, kinds = append(delays, delay), nil
		for _, row := range all.Rows(table) {
			if kind, ok := strings.CutSuffix(row, networkCallers); ok {
				kinds = append(kinds, kind)
			}
		}
	}
	return delays, kinds
}

// networkChart draws the decisions of a Store with batches over the delay of the network, as multiples
// of those without.
func networkChart(all figures.Figures, t theme) string {
	const left, right, top, bottom = 60, 540, 90, 330
	delays, kinds := networkData(all)
	factor := func(kind, delay string) float64 {
		return all.Get(networkTables+delay, kind+networkCallers, networkColumn).Value
	}
	highest, description := 1.0, ""
	for _, kind := range kinds {
		var values []string
		for _, delay := range delays {
			highest = max(highest, factor(kind, delay))
			values = append(values, fmt.Sprintf("%.2f x at %s", factor(kind, delay), delay))
		}
		description += kind + ": " + strings.Join(values, ", ") + ". "
	}
	step := tick(highest)
	ceiling := step * math.Ceil(highest/step)
	y := func(value float64) float64 { return bottom - (bottom-top)*value/ceiling }
	x := func(i int) float64 { return left + 30 + (right-left-40)*float64(i)/float64(max(1, len(delays)-1)) }

	const title = "Decisions over a network, in batches"
	return draw(t, 390, title, description, func(d *drawing) {
		d.text(left-40, 30, "start", "title", title)
		d.text(left-40, 54, "start", "muted", "as multiples of decisions that are sent one by one, 400 callers, 100 connections; in the legend, at "+delays[len(delays)-1])
		for value := 0.0; value <= ceiling; value += step {
			d.line([]point{{left, y(value)}, {right, y(value)}}, 1, t.grid)
			d.text(left-8, y(value)+5, "end", "muted", fmt.Sprintf("%.3g", value))
		}
		d.line([]point{{left, y(1)}, {right, y(1)}}, 2, t.peer)
		for i, delay := range delays {
			d.text(x(i), bottom+24, "middle", "muted", delay)
		}
		d.text((left+right)/2, bottom+48, "middle", "muted", "delay of each reply")
		var ends []float64
		for i, kind := range kinds {
			var points []point
			for n, delay := range delays {
				points = append(points, point{x(n), y(factor(kind, delay))})
			}
			d.line(points, 2.5, t.lines[i%len(t.lines)])
			for _, p := range points {
				d.dot(p, t.lines[i%len(t.lines)])
			}
			ends = append(ends, points[len(points)-1].y)
		}
		for i, y := range apart(20, ends...) {
			d.dot(point{right + 14, y}, t.lines[i%len(t.lines)])
			d.text(right+24, y+5, "start", "", fmt.Sprintf("%s  %.2f x", kinds[i], factor(kinds[i], delays[len(delays)-1])))
		}
	})
}
