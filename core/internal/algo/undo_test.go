package algo

import (
	"math/rand/v2"
	"testing"
)

// Among the events that are not undone, no more ever fall into a span than the
// bucket holds and refills in it, if what is undone does not overlap. If it does, what
// refills while receipts are open can be kept: these walks find less than a burst more.
func TestUndoNeverOpensABucket(t *testing.T) {
	b, err := NewBucket(3, 1000, 5)
	if err != nil {
		t.Fatal(err)
	}
	for _, overlap := range []bool{false, true} {
		undone := 0
		for seed := range uint64(1000) {
			rng := rand.New(rand.NewPCG(seed, 5))
			w := bucketWalk{b: &b, now: 1 << 40}
			for range 120 {
				w.now += rng.Int64N(600) * rng.Int64N(3)
				if w.spend(1+rng.Int64N(2)) && rng.IntN(3) == 0 && (overlap || len(w.open) == 0) {
					w.open = append(w.open, len(w.events)-1)
				}
				if len(w.open) > 0 && rng.IntN(3) == 0 {
					i := rng.IntN(len(w.open))
					if w.undo(w.open[i], 1+rng.Int64N(2)) {
						undone++
					}
					w.open = append(w.open[:i], w.open[i+1:]...)
				}
			}
			burst := int64(5)
			if overlap {
				burst = 10
			}
			w.check(t, burst)
		}
		if undone < 1000 {
			t.Fatalf("only %d were undone: the test checks nothing", undone)
		}
	}
}

// A bucketWalk is a bucket and what it has admitted.
type bucketWalk struct {
	b      *Bucket
	state  Level
	now    int64
	events []event
	open   []int // of events, what may be undone
}

func (w *bucketWalk) spend(cost int64) (admitted bool) {
	used, _ := w.b.Used(w.state, w.now)
	if !w.b.Fits(used, cost, Never) {
		return false
	}
	w.events = append(w.events, event{at: w.now, cost: cost, receipt: Receipt{At: w.now, Used: used}})
	w.state = w.b.Spend(used, w.now, cost)
	return true
}

func (w *bucketWalk) undo(i int, n int64) bool {
	e := &w.events[i]
	if n = min(n, e.cost); n == 0 {
		return false
	}
	e.cost -= n
	used, _ := w.b.Used(w.state, w.now)
	l, ok := w.b.Undo(used, w.now, n, w.b.Keep(e.receipt, e.cost))
	if ok {
		w.state = l
	}
	return ok
}

// check looks at all spans between events: 3 a millisecond and a burst.
func (w *bucketWalk) check(t *testing.T, burst int64) {
	t.Helper()
	for i := range w.events {
		var sum int64
		for _, e := range w.events[i:] {
			if sum += e.cost; sum*1000 > burst*1000+3*(e.at-w.events[i].at) {
				t.Fatalf("%d events within %d us, more than a burst of %d allows", sum, e.at-w.events[i].at, burst)
			}
		}
	}
}

type event struct {
	at, cost int64
	receipt  Receipt
}

// The same for a log: no span of its period ever holds more than its events.
func TestUndoNeverOpensALog(t *testing.T) {
	for _, grain := range []int64{1, 7} {
		l, err := NewCounter(5, 1000, 1000/grain)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(200) {
			rng := rand.New(rand.NewPCG(seed, 6))
			var (
				h      History
				now    = int64(1 << 40)
				events []event
			)
			for range 120 {
				now += rng.Int64N(300) * rng.Int64N(3)
				if r := l.Read(&h, now, 1); l.Fits(r, 1) {
					l.Spend(&h, now, 1)
					events = append(events, event{at: now, cost: 1, receipt: Receipt{At: now}})
				}
				if i := len(events) - 1 - rng.IntN(8); i >= 0 && rng.IntN(3) == 0 && events[i].cost > 0 {
					events[i].cost = 0
					l.Undo(&h, now, 1, events[i].receipt)
				}
			}
			for i := range events {
				var sum int64
				for _, e := range events[i:] {
					if sum += e.cost; e.at-events[i].at < 1000 && sum > 5 {
						t.Fatalf("grain %d, seed %d: %d events within %d us", grain, seed, sum, e.at-events[i].at)
					}
				}
			}
		}
	}
}

// A receipt that was never made undoes nothing.
func TestUndoNothing(t *testing.T) {
	b, _ := NewBucket(10, 1_000_000, 10)
	w, _ := NewWindow(10, 1_000_000)
	l, _ := NewLog(10, 1_000_000)
	const now = int64(1 << 50)
	used, _ := b.Used(b.Spend(Span{}, now, 7), now)
	if got, ok := b.Undo(used, now, 7, Receipt{}); ok {
		t.Errorf("a bucket became %+v", got)
	}
	if got, ok := w.Undo(7, now, 7, Receipt{}); ok || got != 7 {
		t.Errorf("a window became %d", got)
	}
	var h History
	l.Spend(&h, now, 7)
	if l.Undo(&h, now, 7, Receipt{}); h.Count() != 7 {
		t.Errorf("a log became %d", h.Count())
	}
}

// A debt lasts no longer than the longest limit does, whatever was settled.
func TestSettleSaturates(t *testing.T) {
	const now = int64(1 << 50)
	for _, limit := range [][3]int64{{1, 1, 1}, {1, Horizon, 1}, {1 << 47, 1, 5}, {7, 1_000_003, 11}} {
		b, err := NewBucket(limit[0], limit[1], limit[2])
		if err != nil {
			t.Fatal(err)
		}
		state := Level{}
		for range 3 {
			used, _ := b.Used(state, now)
			state = b.Debit(used, now, Never)
		}
		used, moved := b.Used(state, now)
		if moved || used.Micros > Horizon {
			t.Errorf("%v: %+v is in use, %v", limit, used, moved)
		}
		if v := b.Verdict(used, 1, Never, false); v.Allowed != b.Fits(used, 1, Never) || v.Remaining < 0 || v.Retry < 0 || v.Retry == Never {
			t.Errorf("%v: %+v", limit, v)
		}
		for range 3 {
			used, _ = b.Used(state, now)
			state = b.Credit(used, now, Never)
		}
		if state != (Level{}) {
			t.Errorf("%v: all given back is %+v", limit, state)
		}
	}
}
