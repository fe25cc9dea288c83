package benchmarks

import (
	"flag"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// A candidate is a function to measure. It calls its subject n times.
type candidate struct {
	name string
	run  func(n int)
}

// interleave measures the candidates in turns on all processors, in slices of n calls, because the
// speed of a machine changes from one second to the next. It reports for each candidate the median
// and the minimum of a call, and the medians of two ratios: the time of the candidate divided by that
// of the floor (x-floor), and the time of sethvargo divided by that of the candidate (x-sethvargo).
func interleave(b *testing.B, n int, candidates []candidate) {
	rounds := 12
	if flag.Lookup("test.benchtime").Value.String() == "1x" { // a test that all candidates work
		rounds, n = 1, min(n, 10_000)
	}
	times := make(map[string][]float64)
	for round := range rounds + 1 {
		for i := range candidates {
			c := &candidates[(i+round)%len(candidates)]
			if t := parallel(n, c.run); round > 0 { // the first round warms up
				times[c.name] = append(times[c.name], t)
			}
		}
	}
	for _, c := range candidates {
		b.Run(c.name, func(b *testing.B) {
			own := times[c.name]
			b.ReportMetric(median(own), "ns/op")
			b.ReportMetric(slices.Min(own), "min-ns")
			b.ReportMetric(median(ratios(own, times["floor"])), "x-floor")
			b.ReportMetric(median(ratios(times["sethvargo"], own)), "x-sethvargo")
		})
	}
}

// parallel returns the nanoseconds that each of n calls takes when all processors share them.
func parallel(n int, run func(n int)) float64 {
	procs := runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	start := time.Now()
	for range procs {
		wg.Go(func() { run(n / procs) })
	}
	wg.Wait()
	return float64(time.Since(start)) / float64(n)
}

func ratios(of, to []float64) []float64 {
	quotients := make([]float64, len(of))
	for i := range of {
		quotients[i] = of[i] / to[i]
	}
	return quotients
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
