package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weir-go/weir/benchmarks/figures"
)

// The tables and rows of the charts.
const (
	redisTable, redisPeer, redisWeir = "Decisions per second in Redis", "redis_rate", "weir, token bucket"
	decisionTable, requestTable      = "One decision in memory", "One request, allowed"
)

// redisChart draws the decisions per second over the number of callers.
func redisChart(all figures.Figures, t theme) string {
	const left, right, top, bottom = 80, 610, 90, 330
	columns := all.Columns(redisTable)
	highest := 0.0
	lines := [2]struct{ row, name, class, colour string }{
		{redisPeer, redisPeer, "", t.peer},
		{redisWeir, "weir", "weir", t.weir},
	}
	description := ""
	for _, l := range lines {
		var values []string
		for _, column := range columns {
			value := all.Get(redisTable, l.row, column).Value
			highest = max(highest, value)
			values = append(values, figures.Thousands(value)+" with "+column)
		}
		description += l.name + ": " + strings.Join(values, ", ") + ". "
	}
	step := tick(highest)
	ceiling := step * math.Ceil(highest/step)
	y := func(value float64) float64 { return bottom - (bottom-top)*value/ceiling }
	x := func(i int) float64 { return left + 30 + (right-left-40)*float64(i)/float64(max(1, len(columns)-1)) }

	return draw(t, 390, redisTable, description, func(d *drawing) {
		d.text(left-60, 30, "start", "title", redisTable)
		d.text(left-60, 54, "start", "muted", "token bucket, random keys, one Redis process, callers in one process")
		for value := 0.0; value <= ceiling; value += step {
			d.line([]point{{left, y(value)}, {right, y(value)}}, 1, t.grid)
			d.text(left-8, y(value)+5, "end", "muted", figures.Thousands(value))
		}
		for i, column := range columns {
			d.text(x(i), bottom+24, "middle", "muted", strings.Fields(column)[0])
		}
		d.text((left+right)/2, bottom+48, "middle", "muted", "concurrent callers")
		var ends []float64
		for _, l := range lines {
			var points []point
			for c, column := range columns {
				points = append(points, point{x(c), y(all.Get(redisTable, l.row, column).Value)})
			}
			d.line(points, 2.5, l.colour)
			for _, p := range points {
				d.dot(p, l.colour)
			}
			ends = append(ends, points[len(points)-1].y)
		}
		for i, y := range apart(20, ends...) {
			value := all.Get(redisTable, lines[i].row, columns[len(columns)-1]).Value
			d.text(right+6, y+5, "start", lines[i].class, lines[i].name+"  "+figures.Thousands(value)+"/s")
		}
	})
}

// tick returns a round distance of at most five lines up to highest.
func tick(highest float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(highest/5)))
	for _, f := range []float64{1, 2, 5} {
		if highest <= 5*f*unit {
			return f * unit
		}
	}
	return 10 * unit
}

// apart returns the positions ys of labels, moved so that they are about distance apart.
func apart(distance float64, ys ...float64) []float64 {
	moved, order := slices.Clone(ys), make([]int, len(ys))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ys[a], ys[b]) })
	for range 100 {
		for i := 1; i < len(order); i++ {
			above, below := &moved[order[i-1]], &moved[order[i]]
			if gap := distance - (*below - *above); gap > 0 {
				*above, *below = *above-gap/2, *below+gap/2
			}
		}
	}
	return moved
}

// memoryChart draws the times of a decision and of a request in memory.
func memoryChart(all figures.Figures, t theme) string {
	const left, right, top, pitch, thickness = 140.0, 680.0, 90.0, 28.0, 18.0
	panels := []struct{ title, table, column string }{
		{"One decision, a million keys", decisionTable, "1M keys, random"},
		{"One request with net/http", requestTable, "net/http"},
	}
	height := top
	description := ""
	var rows [][]figures.Figure
	for _, p := range panels {
		bars := fastest(all, p.table, p.column)
		rows = append(rows, bars)
		height += pitch*float64(len(bars)) + 60
		var values []string
		for _, f := range bars {
			values = append(values, fmt.Sprintf("%s %.0f ns", f.Row, f.Value))
		}
		description += p.title + ": " + strings.Join(values, ", ") + ". "
	}
	const title = "Time of a decision and of a request, limits in memory"
	return draw(t, height-30, title, description, func(d *drawing) {
		d.text(20, 30, "start", "title", title)
		d.text(20, 54, "start", "muted", "nanoseconds, shorter is better")
		y := top
		for i, p := range panels {
			d.text(20, y, "start", "", p.title)
			y += 14
			longest := rows[i][len(rows[i])-1].Value
			for _, f := range rows[i] {
				class, colour := "", t.peer
				if f.Row == "weir" {
					class, colour = "weir", t.weir
				}
				length := (right - left) * f.Value / longest
				d.text(left-10, y+thickness-4, "end", class, f.Row)
				d.bar(left, y, length, thickness, colour)
				d.text(left+length+8, y+thickness-4, "start", class, fmt.Sprintf("%.0f ns", f.Value))
				y += pitch
			}
			y += 46
		}
	})
}

// fastest returns the figures of the limiters in a column, the smallest first.
func fastest(all figures.Figures, table, column string) (bars []figures.Figure) {
	for _, row := range all.Rows(table) {
		f := all.Get(table, row, column)
		if f.Text != "" && !slices.Contains([]string{"floor", "no limiter", "weir, no header fields", "weir, again"}, row) {
			bars = append(bars, f)
		}
	}
	slices.SortFunc(bars, func(a, b figures.Figure) int { return int(a.Value - b.Value) })
	return bars
}
