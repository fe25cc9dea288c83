package memstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/testkit"
)

// An empty store has no size after any adjustments.
func TestStore_Adjust_sizeOfAnEmptyStore(t *testing.T) {
	for _, algorithm := range testkit.Algorithms {
		s := newTestStore(1)
		l := s.limiter(algorithm.Rule("r", core.PerSecond(10)))
		for range 12 {
			for range 5 {
				allow(t, l, "one")
				s.now++
			}
			s.now += 900_000
			allow(t, l, "one")
			s.now += 200_000 // five events have expired
			testkit.Must(t, l.Credit(t.Context(), "one", 1))
			s.now -= 300_000
			allow(t, l, "one")
			if _, err := l.Reset(t.Context(), "one"); err != nil {
				t.Fatal(err)
			}
		}
		if size, _ := s.size(); size != 0 {
			t.Errorf("got a size of %d bytes in an empty store", size)
		}
	}
}

// A Credit, Undo or Reset of one key frees nothing of the overflow bucket that it shares with
// others. A Debit is counted, but makes no debt of the bucket that others share.
func TestStore_Adjust_overflowBucket(t *testing.T) {
	for _, algorithm := range testkit.Algorithms {
		r := algorithm.Rule("r", core.PerHour(4))
		t.Run(r.Algorithm().String(), func(t *testing.T) {
			s, _ := fullStore(t)
			l := s.limiter(r)
			k1, k2 := twoKeys(s, r)
			held, err := l.Reserve(t.Context(), k1, 2)
			testkit.Must(t, err)
			for name, adjust := range map[string]func() error{
				"Credit": func() error { return l.Credit(t.Context(), k1, 2) },
				"Refund": func() error { return held.Refund(t.Context()) },
				"Reset":  func() error { _, err := l.Reset(t.Context(), k1); return err },
				"none":   func() error { return nil },
			} {
				testkit.Must(t, adjust())
				d := testkit.Peek(t, l, k2)
				if got := d.State(0).Remaining; got != 2 {
					t.Errorf("%s: got %d left, expected 2", name, got)
				}
			}
			testkit.Must(t, l.Debit(t.Context(), k1, 40))
			if allow(t, l, k2) {
				t.Error("got an event admitted after a Debit of 40, expected a denial")
			}
			s.now += time.Hour.Microseconds() * 2
			if !allow(t, l, fmt.Sprint("new", k2)) {
				t.Error("got a denial two hours later, expected an event admitted")
			}
			s.checkMemory(t, "adjusted", 2)
		})
	}
}
