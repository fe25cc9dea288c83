package main

import (
	"fmt"
	"io"
	"time"
)

const head = `| fault | requests | failed | decided in memory | busiest user: admitted (limit, bound) | p99 before | added until left | while away | while returning | left after | back after |
|---|---|---|---|---|---|---|---|---|---|---|
`

// writeRow writes the trial as a row of the table.
func (t *trial) writeRow(w io.Writer, busiest account) {
	failed, memory := 0, 0
	for i := range t.records {
		if t.records[i].failed() {
			failed++
		}
		if t.records[i].store == byMemory {
			memory++
		}
	}
	left := t.left()
	before, _ := t.p99(t.start, t.begun)
	added := func(a, b time.Time) string {
		took, ok := t.p99(a, b)
		if !ok || a.IsZero() {
			return "–"
		}
		return milliseconds(max(0, took-before))
	}
	finding, away, leftAfter := added(t.begun, t.ended), "–", "–"
	if !left.IsZero() {
		finding, away, leftAfter = added(t.begun, left), added(left, t.ended), seconds(left.Sub(t.begun))
	}
	back := seconds(t.back.Sub(t.returned))
	if !t.recovered {
		back = "never"
	}
	fmt.Fprintf(w, "| %s | %d | %d | %d %% | %d (%d, %d) | %s | %s | %s | %s | %s | %s |\n",
		t.fault.name, len(t.records), failed, 100*memory/max(1, len(t.records)),
		busiest.admitted, busiest.limit, busiest.bound,
		milliseconds(before), finding, away, added(t.ended, t.back), leftAfter, back)
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
