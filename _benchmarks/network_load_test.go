package benchmarks

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

var networkKeys = identities(10_000)

// A load is a number of callers that ask again as soon as they have a decision.
type load struct {
	callers int
	ask     decider
}

// closedLoop returns a candidate that runs a load, possibly beside another one, with random keys, over a network with the
// given delay. The first slice is longer, because a new Store learns the round trip time and tests the server. Those of
// many callers are longer than the deadline of a decision, because in a shorter one none could miss it.
func closedLoop(b *testing.B, name string, delay time.Duration, loads ...load) candidate {
	first := true
	return candidate{name, func() sample {
		before, length := max(20*time.Millisecond, 2*delay), max(50*time.Millisecond, 5*delay)
		if loads[0].callers >= many {
			before, length = 100*time.Millisecond, 250*time.Millisecond
		}
		if first {
			length, first = time.Second, false
		}
		samples := run(b, before, length, loads)
		if len(samples) > 1 {
			samples[0].beside = &samples[1]
		}
		return samples[0]
	}}
}

// run runs loads. It counts the decisions that end within length, after the time until.
func run(b testing.TB, until, length time.Duration, loads []load) (samples []sample) {
	from := time.Now().Add(until)
	if short() {
		from, length = time.Now(), length/20
	}
	end := from.Add(length)
	var wg sync.WaitGroup
	found := make([][]outcomes, len(loads)) // of each caller
	for i, l := range loads {
		found[i] = make([]outcomes, l.callers)
		for c := range found[i] {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(ctx) // as that of a request
				defer cancel()
				rng := rand.New(rand.NewPCG(rand.Uint64(), 9))
				for begin := time.Now(); begin.Before(end); {
					allowed, err := l.ask(ctx, networkKeys[rng.IntN(len(networkKeys))])
					now := time.Now()
					if !now.Before(from) && now.Before(end) {
						found[i][c].add(allowed, err, now.Sub(begin))
					}
					begin = now
				}
			})
		}
	}
	wg.Wait()
	for _, callers := range found {
		var sum outcomes
		for _, o := range callers {
			sum.failed += o.failed
			sum.denied += o.denied
			sum.waits = append(sum.waits, o.waits...)
		}
		samples = append(samples, sum.sample(b, length))
	}
	return samples
}

// outcomes count decisions.
type outcomes struct {
	failed, denied int
	waits          []time.Duration // of the others
}

func (o *outcomes) add(allowed bool, err error, took time.Duration) {
	switch {
	case err != nil:
		o.failed++
	case !allowed:
		o.denied++
	default:
		o.waits = append(o.waits, took)
	}
}

// sample returns the figures of decisions within length. A denial is an error of the benchmark.
func (o *outcomes) sample(b testing.TB, length time.Duration) (s sample) {
	if o.denied > 0 {
		b.Errorf("%d events were denied", o.denied)
	}
	n := len(o.waits)
	if n > 0 {
		slices.Sort(o.waits)
		s.p50, s.p99 = o.waits[n/2].Seconds()*1000, o.waits[n*99/100].Seconds()*1000
	}
	s.rate, s.failed = float64(n)/length.Seconds(), float64(o.failed)/float64(max(1, n+o.failed))
	return s
}

// many is the number of callers from which on a decision waits for about as long as its deadline.
const many = 2000

// interleaveLoops measures loads in turns, the larger one of which has n callers.
func interleaveLoops(n int, candidates []candidate) map[string]series {
	if *quick || n >= many {
		return interleave(20, candidates)[0]
	}
	return interleave(100, candidates)[0]
}

// times returns a ratio as a text, which is empty if there is no ratio.
func times(ratio float64) string {
	switch {
	case math.IsNaN(ratio):
		return ""
	case ratio > 100:
		return "> 100"
	}
	return fmt.Sprintf("%.2f", ratio)
}

// percent returns a part as a text.
func percent(part float64) string {
	if part == 0 {
		return "0"
	}
	return fmt.Sprintf("%.1f %%", 100*part)
}
