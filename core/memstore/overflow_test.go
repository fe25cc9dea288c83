package memstore

import (
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/testkit"
)

// A state in an overflow bucket stays there when there is room again, until it has expired.
func TestStore_Take_overflowBucketAndRoomAgain(t *testing.T) {
	for _, algorithm := range testkit.Algorithms {
		r := algorithm.Rule("r", core.Per(5, time.Millisecond))
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
				testkit.Must(t, err)
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
	for _, algorithm := range testkit.Algorithms {
		r := algorithm.Rule("r", core.PerHour(4))
		t.Run(r.Algorithm().String(), func(t *testing.T) {
			s, _ := fullStore(t)
			l := s.limiter(r)
			k1, k2 := twoKeys(s, r)
			for _, step := range []struct {
				cost1, cost2, left int
				allowed            bool
			}{{3, 2, 4, false}, {1, 2, 1, true}, {1, 1, 1, false}} {
				d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: l, Key: k1, Cost: step.cost1}, core.Ask{Limiter: l, Key: k2, Cost: step.cost2})
				testkit.Must(t, err)
				after := testkit.Peek(t, l, k1)
				if left := after.State(0).Remaining; d.Allowed != step.allowed || left != step.left || d.Allowed != (d.RetryAfter == 0) {
					t.Errorf("costs %d and %d: got %v with %d left, expected %t with %d", step.cost1, step.cost2, d, left, step.allowed, step.left)
				}
			}
		})
	}
}

// Keys in one overflow bucket take at most its limit together. States that are half used are not evicted.
func TestStore_Take_AtMostOfOverflowBucket(t *testing.T) {
	for _, algorithm := range testkit.Algorithms {
		r := algorithm.Rule("r", core.Per(10, time.Hour))
		t.Run(r.Algorithm().String(), func(t *testing.T) {
			s, _ := fullStore(t)
			l := s.limiter(r, algorithm.Rule("wide", core.Per(11, time.Hour)))
			k1, k2 := twoKeys(s, r)
			for i, c := range []struct {
				key     string
				n, want int
			}{{k1, 6, 6}, {k2, 3, 3}, {k1, 9, 1}, {k2, 9, 0}, {k1, 1, 0}} {
				got, err := l.ReserveAtMost(t.Context(), c.key, c.n)
				testkit.Must(t, err)
				if got.Cost() != c.want {
					t.Errorf("call %d: got the cost %d, want %d", i, got.Cost(), c.want)
				}
			}
			if s.Stats().Overflowed == 0 {
				t.Error("no key has overflowed")
			}
		})
	}
}

// Nothing rolls over from an overflow bucket: a key would get the events that others have left.
func TestStore_Take_overflowBucketAndRollover(t *testing.T) {
	r := core.Quota("r", core.Daily(10)).Rollover(5)
	s, _ := fullStore(t)
	l := s.limiter(r)
	k1, k2 := twoKeys(s, r)
	for day := range 2 {
		for _, key := range []string{k1, k2} {
			d := testkit.Ask(t, l, key, 1)
			if got := d.State(0); got.Limit() != core.Daily(10) || day == 0 && got.Remaining != 10-map[string]int{k1: 1, k2: 2}[key] {
				t.Errorf("day %d: got %v, want a limit of 10", day, d)
			}
		}
		s.now += 24 * time.Hour.Microseconds()
	}
}
