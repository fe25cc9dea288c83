package benchmarks

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/benchmarks/figures"
)

var (
	file     = flag.String("figures", "", "CSV `file` in which the measured figures are set, except with -benchtime 1x")
	beside   = flag.String("beside", "", "CSV `file` of earlier figures, which are printed in parentheses")
	measured figures.Figures
)

// rounds is the number of rounds of a comparison, and slice the length of a slice of one candidate. A virtual machine
// may lose a large part of its speed for some tenths of a second, at equal intervals. Slices must be much shorter, and
// their order must differ from round to round. Otherwise the loss hits one candidate more often than another one.
const (
	rounds = 120
	slice  = 30 * time.Millisecond
)

// again is the name of the control: a second limiter like that with which weir is compared. Its ratio to that shows how
// exact the others are.
const again = "weir, again"

// TestMain prints the tables that the benchmarks have measured.
func TestMain(m *testing.M) {
	code := m.Run()
	if err := report(code == 0 && !short()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// report prints the measured tables, and writes the figures if they are valid.
func report(valid bool) error {
	printed := measured
	if *beside != "" {
		earlier, err := figures.Read(*beside)
		if err != nil {
			return err
		}
		printed = measured.Beside(earlier)
	}
	for _, table := range printed.Tables() {
		fmt.Printf("\n## %s\n\n%s", table, printed.Markdown(table))
	}
	if *file == "" || !valid {
		return nil
	}
	all, err := figures.Read(*file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range measured {
		all.Set(f)
	}
	return all.Write(*file)
}

// record sets a cell of a table: a value for charts, and a text.
func record(table, row, column string, value float64, format string, args ...any) {
	measured.Set(figures.Figure{Table: table, Row: row, Column: column, Value: value, Text: fmt.Sprintf(format, args...)})
}

// short returns whether the benchmarks only have to show that they work.
func short() bool { return flag.Lookup("test.benchtime").Value.String() == "1x" }

// scaled returns n, or a part of it if short.
func scaled(n int) int {
	if short() {
		return max(1, n/100)
	}
	return n
}

// A sample has the figures of one slice of a measurement. The first are means of a call, except p50.
type sample struct {
	time   float64 // elapsed time of the slice, divided by the calls of all goroutines, in ns
	p50    float64 // time that the caller waits, in ms
	cpu    float64 // CPU time of Redis, in us
	calls  float64 // calls of Redis
	allocs float64

	// The others are those of BenchmarkNetwork.
	rate   float64 // decisions a second
	failed float64 // part of the calls that failed
	p99    float64 // time that the callers of the others wait, in ms
	beside *sample // of a load beside this one; nil if there is none
}

func timeOf(s sample) float64   { return s.time }
func p50Of(s sample) float64    { return s.p50 }
func cpuOf(s sample) float64    { return s.cpu }
func callsOf(s sample) float64  { return s.calls }
func allocsOf(s sample) float64 { return s.allocs }
func rateOf(s sample) float64   { return s.rate }
func failedOf(s sample) float64 { return s.failed }
func p99Of(s sample) float64    { return s.p99 }

// A series has the samples of one candidate, one for each round.
type series []sample

// median returns the median of one figure.
func (s series) median(figure func(sample) float64) float64 {
	return s.ratio(nil, figure)
}

// ratio returns the median of the ratios of s to base in each round. The ratio to nil is the figure.
func (s series) ratio(base series, figure func(sample) float64) float64 {
	values := s.ratios(base, figure)
	return values[len(values)/2]
}

// ratios returns the ratios of s to base in each round, in ascending order.
func (s series) ratios(base series, figure func(sample) float64) []float64 {
	values := make([]float64, len(s))
	for i := range s {
		values[i] = figure(s[i])
		if base != nil {
			values[i] /= figure(base[i])
		}
	}
	slices.Sort(values)
	return values
}

// control records in a cell the ratio of the control to weir: its median, and in parentheses the ratios between which
// half of the rounds are.
func control(table, row, column string, own, base series, figure func(sample) float64) {
	values := own.ratios(base, figure)
	n := len(values)
	record(table, row, column, values[n/2], "%.2f x weir (%.2f to %.2f)", values[n/2], values[n/4], values[n*3/4])
}

// A candidate is a function to measure, in slices.
type candidate struct {
	name  string
	slice func() sample
}

// interleave measures the groups of candidates in turns, and those of a group in a random order in each round. It
// returns the series of each group by name.
func interleave(rounds int, groups ...[]candidate) []map[string]series {
	if short() {
		rounds = 1
	}
	found := make([]map[string]series, len(groups))
	rng := rand.New(rand.NewPCG(1, 1))
	for round := range rounds + 1 {
		for g, candidates := range groups {
			if round == 0 {
				found[g] = make(map[string]series)
			}
			for _, i := range rng.Perm(len(candidates)) {
				c := &candidates[i]
				if s := c.slice(); round > 0 { // the first round warms up
					found[g][c.name] = append(found[g][c.name], s)
				}
			}
		}
	}
	return found
}

// elapse returns a function that reports whether the time of a slice is over.
func elapse() (over func() bool) {
	length := slice
	if short() {
		length = time.Millisecond
	}
	var ended atomic.Bool
	time.AfterFunc(length, func() { ended.Store(true) })
	return ended.Load
}
