package main

import (
	"encoding/xml"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/benchmarks/figures"
)

// The tables of README.md and the charts are those of figures.csv.
func TestRender(t *testing.T) {
	files, err := render("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s differs from figures.csv; run make charts (%v)", name, err)
		}
		if !strings.HasSuffix(name, ".svg") {
			continue
		}
		for d := xml.NewDecoder(strings.NewReader(want)); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

// The bars are those of limiters.
func TestFastest(t *testing.T) {
	all, err := figures.Read("../figures.csv")
	if err != nil {
		t.Fatal(err)
	}
	for table, want := range map[[2]string]string{
		{decisionTable, "1M keys, random"}: "echo sethvargo throttled tollbooth ulule weir x/time/rate",
		{requestTable, "net/http"}:         "httprate sethvargo tollbooth ulule weir",
	} {
		var got []string
		for _, f := range fastest(all, table[0], table[1]) {
			got = append(got, f.Row)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got the bars %q, want %q", table[0], got, want)
		}
	}
}

func TestReplaceTables(t *testing.T) {
	all := figures.Figures{{Table: "A", Row: "weir", Column: "time", Value: 1, Text: "1 ns"}}
	const (
		empty  = "before\n\n<!-- table: A -->\n\nafter\n"
		filled = "before\n\n<!-- table: A -->\n\n| | time |\n|---|---|\n| **weir** | **1 ns** |\n\nafter\n"
	)
	for _, text := range []string{empty, filled, strings.Replace(filled, "1 ns", "2 ns", 1)} {
		if got, err := replaceTables(text, all); err != nil || got != filled {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, filled)
		}
	}
	if got, err := replaceTables("<!-- table: B -->\n", all); err == nil {
		t.Errorf("a table without figures: got %q and no error", got)
	}
}

func TestTick(t *testing.T) {
	for highest, want := range map[float64]float64{5: 1, 5.1: 2, 47_000: 10_000, 51_000: 20_000, 150_000: 50_000, 260_000: 100_000} {
		if got := tick(highest); got != want {
			t.Errorf("%v: got %v, want %v", highest, got, want)
		}
	}
}

func TestApart(t *testing.T) {
	for _, c := range []struct{ ys, want []float64 }{
		{nil, nil},
		{[]float64{100, 200}, []float64{100, 200}},
		{[]float64{100, 110}, []float64{95, 115}},
		{[]float64{110, 100}, []float64{115, 95}},
		{[]float64{100, 100}, []float64{90, 110}},
		{[]float64{200, 100, 100, 100}, []float64{200, 80, 100, 120}},
	} {
		got := apart(20, c.ys...)
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 0.1 }) {
			t.Errorf("%v: got %v, want %v", c.ys, got, c.want)
		}
	}
}
