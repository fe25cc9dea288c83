package memstore

import (
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/testkit"
)

func TestStore_Take_statePerKeyAndRule(t *testing.T) {
	t.Parallel()
	s := newTestStore(1 << 16)
	l := s.limiter(core.TokenBucket("r", core.PerHour(1)))
	for _, want := range []bool{true, false} {
		for i := range 5000 {
			if got := allow(t, l, strconv.Itoa(i)); got != want {
				t.Fatalf("key %d: got %t, expected %t", i, got, want)
			}
		}
	}
	seen := make(map[uint64]bool)
	const keys, rules = 50_000, 4
	for i := range keys {
		for rule := range uint64(rules) {
			h := newHashes(s.hash(strconv.Itoa(i)), rule)
			seen[h.own], seen[h.overflow] = true, true
		}
	}
	if want := keys*rules + overflowBuckets*rules; len(seen) != want {
		t.Errorf("got %d hashes, expected %d", len(seen), want)
	}
}

// The clock is read before the lock is taken, so a decision may have a time before that of the last
// one.
func TestStore_Take_timeOfTheLastDecision(t *testing.T) {
	s := New(MaxMemory(1))
	l := core.Must(core.New(s, core.TokenBucket("r", core.PerHour(1))))
	for i := range 6 {
		if i%2 == 0 {
			s.shards[0].last = s.now() + int64(i)*time.Hour.Microseconds() // all buckets are full again
		}
		d, err := core.AllowTogether(t.Context(), []core.Ask{{Limiter: l, Key: "a"}, {Limiter: l, Key: "b"}}[:1+i/4]...)
		if err != nil || d.Allowed != (i%2 == 0) {
			t.Errorf("call %d: got %v, %v, expected %t", i, d, err, i%2 == 0)
		}
	}
}

func TestStore_Take_panicUnlocks(t *testing.T) {
	r := testkit.Compiled(core.TokenBucket("r", core.PerSecond(3)))
	debit := driver.Charge{Key: "k", Rule: r, Cost: 1, Op: driver.Debit}
	for name, charges := range map[string][]driver.Charge{
		"one":  {debit},
		"more": {{Key: "other", Rule: r, Cost: 1}, debit},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(MaxMemory(1))
			func() {
				defer func() {
					if recover() == nil {
						t.Error("Take of a Debit did not panic")
					}
				}()
				_ = s.Take(t.Context(), charges)
			}()
			for i := range s.shards {
				if !s.shards[i].mu.TryLock() {
					t.Fatalf("shard %d is locked", i)
				}
			}
		})
	}
}
