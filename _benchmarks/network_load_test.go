package benchmarks

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// The lengths of slices of BenchmarkNetwork.
const (
	ramp   = 100 * time.Millisecond // the part before anything is counted
	slice  = 500 * time.Millisecond
	warmUp = time.Second // the first slice of a client
)

// A load is a number of callers of one asker.
type load struct {
	callers int
	ask     asker
}

// A tally has the decisions of one slice.
type tally struct {
	failed int
	waits  []time.Duration // of the others
}

func (t *tally) sample(length time.Duration) sample {
	slices.Sort(t.waits)
	n, s := len(t.waits), sample{}
	if n > 0 {
		s.p99 = t.waits[n*99/100].Seconds() * 1000
	}
	s.rate = float64(n) / length.Seconds()
	s.failed = float64(t.failed) / float64(max(1, n+t.failed))
	return s
}

// hammer runs loads beside each other for the time of one slice, with random keys. It counts the
// decisions that end within length after the ramp.
func (n *network) hammer(b *testing.B, loads []load, length time.Duration) (samples []sample) {
	b.Helper()
	from := time.Now().Add(ramp)
	if short() {
		from, length = time.Now(), length/20
	}
	end := from.Add(length)
	var wg sync.WaitGroup
	tallies := make([][]tally, len(loads))
	for i, l := range loads {
		tallies[i] = make([]tally, l.callers)
		for c := range tallies[i] {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(ctx) // as that of a request
				defer cancel()
				rng, t := rand.New(rand.NewPCG(rand.Uint64(), 9)), &tallies[i][c]
				for begin := time.Now(); begin.Before(end); {
					allowed, err := l.ask(ctx, n.keys[rng.IntN(len(n.keys))])
					now := time.Now()
					switch {
					case now.Before(from), !now.Before(end):
					case err != nil:
						t.failed++
					case !allowed:
						b.Error("an event was denied")
						return
					default:
						t.waits = append(t.waits, now.Sub(begin))
					}
					begin = now
				}
			})
		}
	}
	wg.Wait()
	for _, all := range tallies {
		var sum tally
		for _, t := range all {
			sum.failed += t.failed
			sum.waits = append(sum.waits, t.waits...)
		}
		samples = append(samples, sum.sample(length))
	}
	return samples
}
