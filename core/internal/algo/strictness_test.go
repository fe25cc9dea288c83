package algo

import (
	"math/rand/v2"
	"testing"
)

// How much less a sliding window counter admits than the exact log, to clients that
// ask for three times the limit. It is at most one sub-window of the period.
func TestCounterStrictness(t *testing.T) {
	const period, events = 60_000_000, 600
	for _, n := range []int64{1, 2, 10, 60, 600} {
		exact, _ := NewLog(events, period)
		counter, err := NewCounter(events, period, n)
		if err != nil {
			t.Fatal(err)
		}
		for name, gap := range map[string]func(rng *rand.Rand) int64{
			"even":    func(*rand.Rand) int64 { return period / events / 3 },
			"random":  func(rng *rand.Rand) int64 { return rng.Int64N(2 * period / events / 3) },
			"in fits": func(rng *rand.Rand) int64 { return rng.Int64N(2) * rng.Int64N(2) * rng.Int64N(8*period/events/3) },
		} {
			rng := rand.New(rand.NewPCG(uint64(n), 9))
			var a, b History
			var admitted, counted float64
			now := int64(1 << 50)
			for end := now + 200*period; now < end; now += gap(rng) {
				if exact.Fits(exact.Read(&a, now, 1), 1) {
					exact.Spend(&a, now, 1)
					admitted++
				}
				if counter.Fits(counter.Read(&b, now, 1), 1) {
					counter.Spend(&b, now, 1)
					counted++
				}
			}
			share := counted / admitted
			t.Logf("%4d sub-windows, %-7s: %.2f%% of what the exact log admits", n, name, 100*share)
			// A period and a sub-window admit as many events as a period would.
			if least := 1 / (1 + 1/float64(n)); share < least-0.01 || share > 1 {
				t.Errorf("%d sub-windows, %s: %.4f of what the exact log admits, want %.4f to 1", n, name, share, least)
			}
		}
	}
}
