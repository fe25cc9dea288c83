package memstore

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/testkit"
)

// The periods of a quota are those of the wall clock, even if that has been set since the start of the
// store. Other rules in the same decision have the time of the store.
func TestStore_Take_quotaByTheWallClock(t *testing.T) {
	for name, set := range map[string]time.Duration{"as before": 0, "set ahead": 7 * time.Hour, "set back": -7 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(9*time.Hour + 30*time.Minute) // since midnight
				s := New()
				s.origin -= set.Microseconds() // the time of the store is now that of the wall clock before it was set
				quota := testkit.Limiter(t, s, core.Quota("q", core.Daily(5)))
				window := testkit.Limiter(t, s, core.FixedWindow("w", core.Per(5, 24*time.Hour)))
				want := []time.Duration{14*time.Hour + 30*time.Minute, 14*time.Hour + 30*time.Minute + set}
				for i := range 2 {
					if d := testkit.Allow(t, quota, "k"); d.State(0).Window != want[0] || d.State(0).Remaining != 4-2*i {
						t.Errorf("got %v for %v, expected the rest of the day, %v", d, d.State(0).Window, want[0])
					}
					d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: window, Key: "k"}, core.Ask{Limiter: quota, Key: "k"})
					testkit.Must(t, err)
					if d.State(0).Window != want[1] || d.State(1).Window != want[0] || d.State(1).Remaining != 3-2*i {
						t.Errorf("got %v for %v and %v, expected %v and %v", d, d.State(0).Window, d.State(1).Window, want[1], want[0])
					}
				}
				testkit.Must(t, quota.Debit(t.Context(), "k", 10))
				d := testkit.Allow(t, quota, "k")
				if d.Allowed || d.RetryAfter != want[0] {
					t.Fatalf("got %v for %v after a debit, expected a denial for %v", d, d.RetryAfter, want[0])
				}
				time.Sleep(want[0] - time.Microsecond)
				if d := testkit.Allow(t, quota, "k"); d.Allowed {
					t.Errorf("a microsecond before midnight: got %v", d)
				}
				time.Sleep(time.Microsecond)
				if d := testkit.Allow(t, quota, "k"); d.State(0).Remaining != 4 {
					t.Errorf("at midnight: got %v, expected a new day", d)
				}
				testkit.Must(t, quota.Credit(t.Context(), "k", 1))
				if found, err := quota.Reset(t.Context(), "k"); err != nil || found {
					t.Errorf("got %t, %v of a Reset, expected a key that is not in use", found, err)
				}
			})
		})
	}
}

// The states of quotas take the documented memory: 55 to 72 bytes. They are removed when their period is
// over, and not before.
func TestStore_Take_memoryOfQuotas(t *testing.T) {
	testkit.WithoutRace(t)
	s := newTestStore(DefaultMaxMemory / keySize)
	l := s.limiter(core.Quota("q", core.Daily(2)))
	const keys = 200_000
	for range 2 {
		for i := range keys {
			if !allow(t, l, strconv.Itoa(i)) {
				t.Fatalf("key %d was denied", i)
			}
		}
		s.now += 10 * time.Hour.Microseconds() // until 20:00
	}
	bytes := 0
	for i := range s.shards {
		bytes += tableBytes(&s.shards[i].items)
	}
	if got := float64(bytes) / keys; got < 48 || got > 72 {
		t.Errorf("got %.1f bytes for each key, expected 48 to 72", got)
	}
	if got := s.Stats(); got.States != keys {
		t.Errorf("got %+v, expected %d states", got, keys)
	}
	s.now += 10 * time.Hour.Microseconds() // the next day
	for i := range keys {
		allow(t, l, "new "+strconv.Itoa(i))
	}
	if got := s.Stats(); got.States > keys*5/4 {
		t.Errorf("got %+v, expected the states of the first day to be removed", got)
	}
	s.checkMemory(t, "on the next day", 1)
}

// A store that is full keeps the keys that have used up their quota.
func TestStore_Take_quotasAreNotEvicted(t *testing.T) {
	s := newTestStore(1)
	l := s.limiter(core.Quota("q", core.Daily(2)))
	for i := range 100 {
		allowN(t, l, strconv.Itoa(i), 2)
	}
	for i := range 5000 {
		allow(t, l, "flood "+strconv.Itoa(i))
	}
	if s.Stats().Overflowed == 0 {
		t.Fatal("got no overflow buckets, expected a flood")
	}
	for i := range 100 {
		if allow(t, l, strconv.Itoa(i)) {
			t.Errorf("key %d was admitted again", i)
		}
	}
}

// The states of quotas and those of other rules have different clocks: neither removes the other's as
// expired, even if the wall clock has been set.
func TestStore_Take_statesOfTwoClocks(t *testing.T) {
	for name, set := range map[string]time.Duration{"set ahead": 3650 * 24 * time.Hour, "set back": -40 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			s := New(MaxMemory(1 << 20))
			s.origin -= set.Microseconds()
			limiters := []*core.Limiter{
				core.Must(core.New(s, core.FixedWindow("w", core.Per(2, 30*24*time.Hour)))),
				core.Must(core.New(s, core.Quota("q", core.Daily(2)))),
			}
			const keys = 200
			for i := range keys {
				for _, l := range limiters {
					allowN(t, l, strconv.Itoa(i), 2)
				}
			}
			for i := range 3000 {
				for _, l := range limiters {
					allow(t, l, "flood "+strconv.Itoa(i))
				}
			}
			for i := range keys {
				for j, l := range limiters {
					if allow(t, l, strconv.Itoa(i)) {
						t.Fatalf("rule %d: key %d was admitted again", j, i)
					}
				}
			}
		})
	}
}

// A bucket that is exhausted for a plan with headroom is not evicted.
func TestStore_Take_headroomInAFlood(t *testing.T) {
	s := newTestStore(1)
	others := s.limiter(core.TokenBucket("r", core.PerHour(100)).Headroom("batch", 90))
	batch := others.Plan("batch")
	for i := range 100 {
		allowN(t, batch, strconv.Itoa(i), 10)
	}
	for i := range 5000 {
		allowN(t, others, "flood "+strconv.Itoa(i), 30)
	}
	for i := range 100 {
		if allow(t, batch, strconv.Itoa(i)) {
			t.Fatalf("key %d was admitted again", i)
		}
	}
}
