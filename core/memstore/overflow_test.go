package memstore

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testkit"

	"github.com/weir-go/weir/core"
)

// fullStore returns a store of one shard that is full of states that are not evicted, and their
// limiter.
func fullStore(t *testing.T) (*testStore, *core.Limiter) {
	t.Helper()
	s := newTestStore(1)
	fill := s.limiter(core.TokenBucket("fill", core.PerHour(2)))
	for i := 0; s.Stats().Overflowed == 0; i++ {
		allowN(t, fill, strconv.Itoa(i), 2)
	}
	return s, fill
}

// twoKeys returns two keys that share an overflow bucket of r.
func twoKeys(s *testStore, r core.Rule) (k1, k2 string) {
	overflow := func(key string) uint64 { return newHashes(s.hash(key), testkit.Compiled(r).ID).overflow }
	for i := 1; ; i++ {
		if k := strconv.Itoa(i); overflow(k) == overflow("k1") {
			return "k1", k
		}
	}
}

// A state in an overflow bucket stays there when there is room again, until it has expired.
func TestStore_Take_overflowBucketAndRoomAgain(t *testing.T) {
	for _, algorithm := range algorithms {
		r := algorithm("r", core.Per(5, time.Millisecond))
		t.Run(r.Algorithm().String(), func(t *testing.T) {
			s, fill := fullStore(t)
			l, other := s.limiter(r), s.limiter(core.TokenBucket("other", core.PerHour(100)))
			k1, k2 := twoKeys(s, r)
			start := s.now
			for i, call := range []struct {
				at         int64
				key        string
				cost, left int
			}{{0, k1, 3, 2}, {1, k1, 1, 1}, {2, k2, 1, 0}, {9000, k1, 3, 2}, {9001, k2, 1, 4}, {9002, k1, 1, 1}} {
				s.now = start + call.at
				d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: l, Key: call.key, Cost: call.cost}, core.Ask{Limiter: other, Key: "k"})
				if err != nil {
					t.Fatal(err)
				}
				if got := d.State(0).Remaining; got != call.left {
					t.Errorf("at %d: got %d left, expected %d", call.at, got, call.left)
				}
				for j := range 50 { // makes room
					if _, err := fill.Reset(t.Context(), strconv.Itoa(50*i+j)); err != nil {
						t.Fatal(err)
					}
				}
				s.checkMemory(t, call.at, 3)
			}
		})
	}
}

// Two keys of one decision may share an overflow bucket: both charges count.
func TestStore_Take_twoKeysOfOneOverflowBucket(t *testing.T) {
	for _, algorithm := range algorithms {
		r := algorithm("r", core.PerHour(4))
		t.Run(r.Algorithm().String(), func(t *testing.T) {
			s, _ := fullStore(t)
			l := s.limiter(r)
			k1, k2 := twoKeys(s, r)
			for _, step := range []struct {
				cost1, cost2, left int
				allowed            bool
			}{{3, 2, 4, false}, {1, 2, 1, true}, {1, 1, 1, false}} {
				d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: l, Key: k1, Cost: step.cost1}, core.Ask{Limiter: l, Key: k2, Cost: step.cost2})
				if err != nil {
					t.Fatal(err)
				}
				after, err := l.Peek(t.Context(), k1)
				if err != nil {
					t.Fatal(err)
				}
				if left := after.State(0).Remaining; d.Allowed != step.allowed || left != step.left || d.Allowed != (d.RetryAfter == 0) {
					t.Errorf("costs %d and %d: got %v with %d left, expected %t with %d", step.cost1, step.cost2, d, left, step.allowed, step.left)
				}
			}
		})
	}
}

// A Credit, Undo or Reset of one key frees nothing of the overflow bucket that it shares with
// others. A Debit is counted, but makes no debt of the bucket that others share.
func TestStore_Adjust_overflowBucket(t *testing.T) {
	for _, algorithm := range algorithms {
		r := algorithm("r", core.PerHour(4))
		t.Run(r.Algorithm().String(), func(t *testing.T) {
			s, _ := fullStore(t)
			l := s.limiter(r)
			k1, k2 := twoKeys(s, r)
			held, err := l.Reserve(t.Context(), k1, 2)
			if err != nil {
				t.Fatal(err)
			}
			for name, adjust := range map[string]func() error{
				"Credit": func() error { return l.Credit(t.Context(), k1, 2) },
				"Refund": func() error { return held.Refund(t.Context()) },
				"Reset":  func() error { _, err := l.Reset(t.Context(), k1); return err },
				"none":   func() error { return nil },
			} {
				if err := adjust(); err != nil {
					t.Fatal(err)
				}
				d, err := l.Peek(t.Context(), k2)
				if err != nil {
					t.Fatal(err)
				}
				if got := d.State(0).Remaining; got != 2 {
					t.Errorf("%s: got %d left, expected 2", name, got)
				}
			}
			if err := l.Debit(t.Context(), k1, 40); err != nil {
				t.Fatal(err)
			}
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
