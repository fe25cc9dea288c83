package algo

import (
	"math/rand/v2"
	"testing"
)

// The window answers as a map from its number to its count.
func TestWindowEqualsMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, limit := range [][2]int64{{1, 1}, {3, 10}, {10, 1000}, {100, 7}} {
		w, _ := NewWindow(limit[0], limit[1])
		counts := make(map[int64]int64)
		var state Tally
		now := int64(1 << 50)
		for step := range 20_000 {
			now += rng.Int64N(limit[1]/limit[0] + 2)
			cost := 1 + rng.Int64N(limit[0])
			number := now / limit[1]
			left := (number+1)*limit[1] - now
			count, moved := w.Used(state, now)
			if moved || count != counts[number] || w.Left(now) != left {
				t.Fatalf("%v, step %d: %d used and %d left, want %d and %d", limit, step, count, w.Left(now), counts[number], left)
			}
			v := w.Verdict(count, left, cost, true)
			want := Verdict{Allowed: counts[number]+cost <= limit[0], Window: left}
			if want.Allowed {
				counts[number] += cost
				state = w.At(count+cost, now)
			} else {
				want.Retry = left
			}
			want.Remaining = limit[0] - counts[number]
			if counts[number] > 0 {
				want.Reset = left
			}
			if v != want {
				t.Fatalf("%v, step %d, cost %d:\n got %+v\nwant %+v", limit, step, cost, v, want)
			}
		}
	}
}

func TestWindowAfterAStepBack(t *testing.T) {
	w, _ := NewWindow(10, 1000)
	state := w.At(7, 5500)
	if count, moved := w.Used(state, 2100); count != 7 || !moved {
		t.Errorf("three windows back, %d are used, moved %v", count, moved)
	}
	if count, moved := w.Used(w.At(7, 2100), 3000); count != 0 || moved {
		t.Errorf("written back, %d are used a window later, moved %v", count, moved)
	}
}

// However a client bursts, no span of Period ever holds more than Events, and an
// event counts for a sub-window too long at most.
func TestCounterBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, n := range []int64{1, 2, 7, 60} {
		const events, period = 10, 6000
		c, _ := NewCounter(events, period, n)
		exact, _ := NewLog(events, period)
		var h, ideal History
		var admitted []int64
		now := int64(1 << 50)
		for range 50_000 {
			if rng.IntN(50) == 0 {
				now += period - now%period - rng.Int64N(3) // at every edge
			} else {
				now += rng.Int64N(200)
			}
			if !c.Fits(c.Read(&h, now, 1), 1) {
				continue
			}
			c.Spend(&h, now, 1)
			admitted = append(admitted, now)
			if !exact.Fits(exact.Read(&ideal, now, 1), 1) {
				t.Fatalf("%d sub-windows: more than an exact log admits", n)
			}
			exact.Spend(&ideal, now, 1)
		}
		for i := events; i < len(admitted); i++ {
			if admitted[i]-admitted[i-events] < period {
				t.Fatalf("%d sub-windows: %d events within %d", n, events+1, admitted[i]-admitted[i-events])
			}
		}
		if int64(len(h.live())) > n+1 {
			t.Errorf("%d sub-windows are remembered as %d", n, len(h.live()))
		}
	}
}

// Waiting Retry admits, a microsecond less does not, and it is at most a
// sub-window longer than that of an exact log.
func TestCounterRetry(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	const events, period = 5, 6000
	c, _ := NewCounter(events, period, 60)
	for range 2000 {
		var h History
		now := int64(1<<50) + rng.Int64N(period)
		first := now
		for range events {
			c.Spend(&h, now, 1)
			now += rng.Int64N(300)
		}
		v := c.Verdict(c.Read(&h, now, 1), 1, false)
		if exact := first + period - now; v.Allowed || v.Retry < exact || v.Retry > exact+period/60 {
			t.Fatalf("Retry is %d, that of an exact log %d", v.Retry, exact)
		}
		if c.Fits(c.Read(&h, now+v.Retry-1, 1), 1) || !c.Fits(c.Read(&h, now+v.Retry, 1), 1) {
			t.Fatalf("Retry of %d is not when it fits first", v.Retry)
		}
	}
}
