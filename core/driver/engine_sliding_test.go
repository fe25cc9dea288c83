package driver_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// Under three times the load of its limit, a sliding window admits at least as many events as a log
// of a period plus a sub-window, and never more than a log of a period.
func TestSlidingWindow_Strictness(t *testing.T) {
	const period, limit = 60_000_000, 600
	for _, n := range []int{1, 10, 60} {
		for name, gap := range map[string]func(*rand.Rand) int64{
			"even":    func(*rand.Rand) int64 { return period / limit / 3 },
			"in fits": func(rng *rand.Rand) int64 { return rng.Int64N(2) * rng.Int64N(2) * rng.Int64N(8*period/limit/3) },
		} {
			rng := rand.New(rand.NewPCG(uint64(n), 9))
			log := key{rule: rule(t, driver.SlidingLog, limit, period)}
			window := key{rule: compile(t, driver.Definition{
				Algorithm: driver.SlidingWindow, Events: limit, Per: period * time.Microsecond, SubWindows: n,
			})}
			var exact, counted float64
			for now := start; now < start+200*period; now += gap(rng) {
				if v, _ := log.spend(1, now); v.Allowed {
					exact++
				}
				if v, _ := window.spend(1, now); v.Allowed {
					counted++
				}
			}
			share := counted / exact
			t.Logf("%4d sub-windows, %-7s: %.2f%% of the events that a log admits", n, name, 100*share)
			if least := 1/(1+1/float64(n)) - 0.01; share < least || share > 1 {
				t.Errorf("%d sub-windows, %s: got %.4f of the events that a log admits, expected %.4f to 1", n, name, share, least)
			}
		}
	}
}

// Undo and credit free events at the newest 1000 times of a log only.
func TestSlidingLog_recent(t *testing.T) {
	const recent, cost = 1000, 3
	k := key{rule: rule(t, driver.SlidingLog, 1_000_000, 1<<40)}
	var receipts []driver.Receipt
	for i := range int64(recent + 1) {
		_, m := k.spend(cost, start+i)
		receipts = append(receipts, m)
	}
	now := start + 2*recent
	for i, want := range []int{0, cost - 1, 0} { // of the oldest, the second and again the oldest charge
		undo := driver.Charge{Op: driver.Undo, Cost: cost - 1, Receipt: receipts[i%2]}
		before := read(k.rule, k.state, now, 1).Count
		k.do(undo, now)
		if freed := before - read(k.rule, k.state, now, 1).Count; freed != int64(want) {
			t.Errorf("undo %d: %d events are free, want %d", i, freed, want)
		}
	}
	k.do(driver.Charge{Op: driver.Credit, Cost: 1_000_000}, now)
	if left := read(k.rule, k.state, now, 1).Count; left != cost {
		t.Errorf("after a credit of all, %d events count, want %d", left, cost)
	}
}
