package algo

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// naiveLog keeps one time for every event and looks at all of them every time.
type naiveLog struct {
	events, period int64
	times          []int64
}

func (l *naiveLog) take(now, cost int64) Verdict {
	l.times = slices.DeleteFunc(l.times, func(at int64) bool { return at <= now-l.period })
	count := int64(len(l.times))
	v := Verdict{Allowed: count+cost <= l.events, Window: l.period}
	if count > 0 {
		v.Window = l.times[0] + l.period - now
		v.Reset = l.times[count-1] + l.period - now
	}
	if v.Allowed {
		for range cost {
			l.times = append(l.times, now)
		}
		v.Reset = l.period
	} else {
		v.Retry = l.times[count+cost-l.events-1] + l.period - now
		v.Window = v.Retry
	}
	v.Remaining = l.events - int64(len(l.times))
	return v
}

func TestLogEqualsList(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, limit := range [][2]int64{{1, 1}, {3, 10}, {10, 1000}, {100, 50}, {25, 1_000_000}} {
		l, _ := NewLog(limit[0], limit[1])
		naive := &naiveLog{events: limit[0], period: limit[1]}
		var h History
		now := int64(1 << 50)
		for step := range 20_000 {
			switch rng.IntN(4) {
			case 0:
				now++
			case 1:
				now += rng.Int64N(limit[1] + 2)
			case 2:
				now += rng.Int64N(limit[1]/limit[0] + 2)
			}
			cost := int64(1)
			if rng.IntN(3) == 0 {
				cost = 1 + rng.Int64N(limit[0])
			}
			r := l.Read(&h, now, cost)
			v := l.Verdict(r, cost, true)
			if v.Allowed {
				l.Spend(&h, now, cost)
			}
			if want := naive.take(now, cost); v != want {
				t.Fatalf("%v, step %d, cost %d:\n got %+v\nwant %+v", limit, step, cost, v, want)
			}
			if int64(len(h.live())) > limit[0] {
				t.Fatalf("%v: %d runs for %d events", limit, len(h.live()), limit[0])
			}
		}
	}
}

// However a client bursts, no span of Period ever holds more than Events.
func TestLogNeverExceedsAnyWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	l, _ := NewLog(10, 1000)
	var h History
	var admitted []int64
	now := int64(1 << 50)
	for range 50_000 {
		now += rng.Int64N(60)
		if l.Fits(l.Read(&h, now, 1), 1) {
			l.Spend(&h, now, 1)
			admitted = append(admitted, now)
		}
	}
	for i := 10; i < len(admitted); i++ {
		if admitted[i]-admitted[i-10] < 1000 {
			t.Fatalf("11 events within %d of 1000 microseconds", admitted[i]-admitted[i-10])
		}
	}
	if len(admitted) < 1000 {
		t.Fatalf("only %d were admitted", len(admitted))
	}
}

func TestLogRefund(t *testing.T) {
	l, _ := NewLog(10, 1000)
	var h History
	l.Spend(&h, 100, 3)
	l.Spend(&h, 200, 4)
	l.Credit(&h, 300, 5)
	if want := []Run{{100, 2}}; !slices.Equal(h.live(), want) || h.count != 2 {
		t.Errorf("3 and 4 less 5 is %v, %d", h.live(), h.count)
	}
	l.Credit(&h, 300, 99)
	if len(h.live()) != 0 || h.count != 0 {
		t.Errorf("2 less 99 is %v, %d", h.live(), h.count)
	}
	l.Spend(&h, 1000, 3)
	l.Credit(&h, 2000, 1)
	if h.count != 3 {
		t.Errorf("of what had left, %d of 3 are there", h.count)
	}
}

// After a step back the events of the future count as of now, and what had left
// the window before does not come back.
func TestLogAfterAStepBack(t *testing.T) {
	l, _ := NewLog(3, 1000)
	var h History
	l.Spend(&h, 10_000, 1)
	l.Spend(&h, 10_900, 1)
	l.Spend(&h, 11_500, 1)
	const back = 10_950
	if r := l.Read(&h, back, 1); r.Count != 2 {
		t.Errorf("the window holds %d, want 2", r.Count)
	}
	if !l.Moved(&h, back) {
		t.Error("an event after now does not show")
	}
	l.Trim(&h, back)
	if want := []Run{{10_900, 1}, {10_950, 1}}; !slices.Equal(h.live(), want) || l.Moved(&h, back) {
		t.Errorf("the history is %v, want %v", h.live(), want)
	}
}

func TestHistory_Coarsen_AfterAppendWithoutRoom(t *testing.T) {
	for n := 1; n <= 2000; n++ {
		h := History{runs: make([]Run, n), count: int64(n)}
		h.add(1, 1)
		h.Coarsen()
		if h.Size() > n || h.Count() != int64(n)+1 {
			t.Errorf("got room for %d runs and %d events, expected at most %d and %d", h.Size(), h.Count(), n, n+1)
		}
	}
}

// A coarser history counts the same events for longer, never for shorter.
func TestCoarsenIsStrict(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	l, _ := NewLog(50, 1000)
	for range 500 {
		var exact, coarse History
		now := int64(1 << 50)
		for range 40 {
			now += rng.Int64N(20)
			l.Spend(&exact, now, 1)
			l.Spend(&coarse, now, 1)
			if rng.IntN(10) == 0 {
				before := coarse.Size()
				coarse.Coarsen()
				if live := len(coarse.live()); coarse.Size() > before {
					t.Fatalf("%d runs take %d, before %d", live, coarse.Size(), before)
				}
			}
		}
		for range 100 {
			now += rng.Int64N(30)
			e, c := l.Read(&exact, now, 1), l.Read(&coarse, now, 1)
			if c.Count < e.Count || c.Count > 0 && (c.First < e.First || c.Last < e.Last) {
				t.Fatalf("exact %+v, coarse %+v", e, c)
			}
		}
		if l.Read(&coarse, now+1000, 1).Count != 0 {
			t.Fatal("a coarse history does not end")
		}
	}
}
