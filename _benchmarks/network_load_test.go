package benchmarks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

var networkKeys = identities(10_000)

// An asker decides about one event.
type asker func(ctx context.Context, key string) (allowed bool, err error)

// reserve decides as a gate does.
func reserve(l *core.Limiter, cost int) asker {
	return func(ctx context.Context, key string) (bool, error) {
		r, err := l.Reserve(ctx, key, cost)
		return err == nil && r.Decision().Allowed, err
	}
}

func allow(l *core.Limiter) asker {
	return func(ctx context.Context, key string) (bool, error) {
		d, err := l.Allow(ctx, key)
		return d.Allowed, err
	}
}

// A load is a number of callers that ask again as soon as they have a decision.
type load struct {
	callers int
	ask     asker
}

// closedLoop returns a candidate that runs a load, possibly beside another one, with random keys. The
// first slice is longer, because a new Store learns the round trip time and tests the server.
func closedLoop(b *testing.B, name string, loads ...load) candidate {
	first := true
	return candidate{name, func() sample {
		length := 500 * time.Millisecond
		switch {
		case first:
			length, first = time.Second, false
		case *quick:
			length = 400 * time.Millisecond
		}
		samples := run(b, length, loads)
		if len(samples) > 1 {
			samples[0].beside = &samples[1]
		}
		return samples[0]
	}}
}

// run runs loads. It counts the decisions that end within length, after a tenth of a second.
func run(b *testing.B, length time.Duration, loads []load) (samples []sample) {
	from := time.Now().Add(100 * time.Millisecond)
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
					allowed, err := l.ask(ctx, networkKeys[rng.IntN(len(networkKeys))])
					now := time.Now()
					if !now.Before(from) && now.Before(end) {
						t.add(b, allowed, err, now.Sub(begin))
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

// A tally counts decisions.
type tally struct {
	failed int
	waits  []time.Duration // of the others
}

func (t *tally) add(b *testing.B, allowed bool, err error, took time.Duration) {
	switch {
	case err != nil:
		t.failed++
	case !allowed:
		b.Error("an event was denied")
	default:
		t.waits = append(t.waits, took)
	}
}

// sample returns the figures of decisions within length.
func (t *tally) sample(length time.Duration) (s sample) {
	n := len(t.waits)
	if n > 0 {
		slices.Sort(t.waits)
		s.p99 = t.waits[n*99/100].Seconds() * 1000
	}
	s.rate, s.failed = float64(n)/length.Seconds(), float64(t.failed)/float64(max(1, n+t.failed))
	return s
}

// interleaveLoops measures loads in turns.
func interleaveLoops(candidates []candidate) map[string]series {
	if *quick {
		return interleave(3, candidates)[0]
	}
	return interleave(6, candidates)[0]
}

// percent returns a part as a text.
func percent(part float64) string {
	if part == 0 {
		return "0"
	}
	return fmt.Sprintf("%.1f %%", 100*part)
}
