package driver_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// An admitted event stays admitted for the costs that were not undone.
type event struct {
	at      int64
	cost    int
	receipt driver.Receipt
}

// most returns the largest sum of costs within less than period microseconds.
func most(events []event, period int64) (sum int) {
	inside, first := 0, 0
	for _, e := range events {
		for inside += e.cost; e.at-events[first].at >= period; first++ {
			inside -= events[first].cost
		}
		sum = max(sum, inside)
	}
	return sum
}

// However a client bursts, no span of a period has more events than the limit, and a sliding
// window admits nothing that a log would not.
func TestSliding_NoSpanExceedsLimit(t *testing.T) {
	const limit, period = 10, 6000
	for _, n := range []int{0, 1, 2, 7, 60} {
		rng := rand.New(rand.NewPCG(uint64(n), 3))
		log := key{rule: rule(t, driver.SlidingLog, limit, period)}
		k := key{rule: log.rule}
		if n > 0 {
			k.rule = compile(t, driver.Definition{Algorithm: driver.SlidingWindow, Events: limit, Per: period * time.Microsecond, SubWindows: n})
		}
		var events []event
		for now := start; len(events) < 5000; {
			if now += rng.Int64N(200); rng.IntN(50) == 0 {
				now += period - now%period - rng.Int64N(3) // at an edge
			}
			cost := 1 + rng.IntN(3)
			if v, _ := k.spend(cost, now); !v.Allowed {
				continue
			}
			events = append(events, event{at: now, cost: cost})
			if v, _ := log.spend(cost, now); !v.Allowed {
				t.Fatalf("%d sub-windows: an event was admitted that a log denies", n)
			}
		}
		if got := most(events, period); got != limit {
			t.Errorf("%d sub-windows: got up to %d events in a period, expected %d", n, got, limit)
		}
	}
}

// A fixed window admits its limit in every window, whatever the clock and the costs are.
func TestFixedWindow_NoWindowExceedsLimit(t *testing.T) {
	const limit, period = 10, 1000
	rng := rand.New(rand.NewPCG(1, 4))
	k := key{rule: rule(t, driver.FixedWindow, limit, period)}
	admitted := make(map[int64]int)
	for now := start; now < start+1000*period; now += rng.Int64N(150) {
		cost := 1 + rng.IntN(3)
		if v, _ := k.spend(cost, now); v.Allowed {
			admitted[now/period] += cost
		}
	}
	full := 0
	for number, n := range admitted {
		if n > limit {
			t.Errorf("got %d events in window %d, expected at most %d", n, number, limit)
		}
		if n == limit {
			full++
		}
	}
	if full < 500 {
		t.Errorf("got %d full windows of 1000, expected at least 500", full)
	}
}

// A sliding window admits at least as much as a log of a period and a sub-window would, from
// clients that ask for three times the limit, and never more than a log.
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

// walk spends and undoes parts of what it spent, at random, and returns the events with the
// costs that stay. Charges that can be undone are open at the same time only if overlap is set.
func (k *key) walk(rng *rand.Rand, step int64, overlap bool) (events []event, undone int) {
	var open []int // of events
	now := start
	for range 120 {
		now += rng.Int64N(step) * rng.Int64N(3)
		cost := 1 + rng.IntN(2)
		if v, m := k.spend(cost, now); v.Allowed {
			events = append(events, event{now, cost, m})
			if overlap || len(open) == 0 {
				open = append(open, len(events)-1)
			}
		}
		if len(open) == 0 || rng.IntN(2) == 0 {
			continue
		}
		i := rng.IntN(len(open))
		e := &events[open[i]]
		open = append(open[:i], open[i+1:]...)
		n := 1 + rng.IntN(e.cost)
		e.cost -= n
		m := k.rule.Keep(e.receipt, int64(e.cost))
		before := k.left(now)
		if k.do(driver.Charge{Op: driver.Undo, Cost: n, Receipt: &m}, now).Remaining > before {
			undone++
		}
	}
	return events, undone
}

// left is how many events would be admitted at now.
func (k *key) left(now int64) int {
	return k.do(driver.Charge{Op: driver.Peek, Cost: 1}, now).Remaining
}

// The events of a bucket that are not undone stay within what it holds and refills, in any
// span, if the charges that are undone do not overlap. Otherwise, what refills while
// receipts are open can be kept: these walks find less than a burst more.
func TestUndo_NeverOpensABucket(t *testing.T) {
	const perMilli, burst = 3, 5
	for _, a := range []driver.Algorithm{driver.TokenBucket, driver.LeakyBucket} {
		k := key{rule: compile(t, driver.Definition{Algorithm: a, Events: perMilli, Per: time.Millisecond, Burst: burst})}
		for _, overlap := range []bool{false, true} {
			limit, undone := int64(burst), 0
			if overlap {
				limit += burst
			}
			for seed := range uint64(600) {
				k.state = driver.State{}
				events, n := k.walk(rand.New(rand.NewPCG(seed, 5)), 600, overlap)
				undone += n
				for i := range events {
					sum := int64(0)
					for _, e := range events[i:] {
						if sum += int64(e.cost); sum*1000 > limit*1000+perMilli*(e.at-events[i].at) {
							t.Fatalf("%v, walk %d: got %d events within %d us, expected at most %d and the refill", a, seed, sum, e.at-events[i].at, limit)
						}
					}
				}
			}
			if undone < 600 {
				t.Errorf("%v: got %d undos that freed something, expected at least 600", a, undone)
			}
		}
	}
}

// The events of a log or window that are not undone stay within the limit, in any span of a
// period of a sliding one, and in any window of a fixed one.
func TestUndo_NeverOpensAWindow(t *testing.T) {
	const limit, period = 5, 1000
	for _, a := range []driver.Algorithm{driver.SlidingLog, driver.SlidingWindow, driver.FixedWindow} {
		k, undone := key{rule: rule(t, a, limit, period)}, 0
		for seed := range uint64(400) {
			k.state = driver.State{}
			events, n := k.walk(rand.New(rand.NewPCG(seed, 6)), 300, true)
			undone += n
			if a == driver.FixedWindow {
				for i := range events {
					events[i].at -= events[i].at % period
				}
			}
			if got := most(events, period); got > limit {
				t.Fatalf("%v, walk %d: got %d events in a period, expected at most %d", a, seed, got, limit)
			}
		}
		if undone < 400 {
			t.Errorf("%v: got %d undos that freed something, expected at least 400", a, undone)
		}
	}
}

// A debt of any size lasts no longer than the longest limit, and a credit of any size ends it.
func TestDebit_Saturates(t *testing.T) {
	const century = time.Duration(driver.Horizon) * time.Microsecond
	for _, d := range []driver.Definition{
		{Algorithm: driver.TokenBucket, Events: 1, Per: time.Microsecond},
		{Algorithm: driver.TokenBucket, Events: 1, Per: century},
		{Algorithm: driver.TokenBucket, Events: math.MaxInt >> 17, Per: time.Microsecond, Burst: 5},
		{Algorithm: driver.LeakyBucket, Events: 7, Per: 1_000_003 * time.Microsecond, Burst: 11},
		{Algorithm: driver.FixedWindow, Events: 3, Per: time.Second},
		{Algorithm: driver.SlidingLog, Events: 3, Per: time.Second},
		{Algorithm: driver.SlidingWindow, Events: 3, Per: time.Second, SubWindows: 7},
	} {
		k := key{rule: compile(t, d)}
		for range 3 {
			v := k.do(driver.Charge{Op: driver.Debit, Cost: math.MaxInt}, start)
			if v.Remaining != 0 || v.ResetAfter <= 0 || v.ResetAfter > century {
				t.Errorf("%+v: got %d left and a debt of %v, expected none left and at most 100 years", d, v.Remaining, v.ResetAfter)
			}
		}
		if v, _ := k.spend(1, start); v.Allowed || v.RetryAfter <= 0 || v.RetryAfter == driver.Never {
			t.Errorf("%+v: got %+v in debt", d, v)
		}
		for range 3 {
			k.do(driver.Charge{Op: driver.Credit, Cost: math.MaxInt}, start)
		}
		if !k.state.IsZero() {
			t.Errorf("%+v: got %+v with everything given back, expected the zero State", d, k.state)
		}
	}
}
