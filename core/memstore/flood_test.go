package memstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/memstore"
)

func allow(t testing.TB, l *core.Limiter, key string) core.Decision {
	t.Helper()
	d, err := l.Allow(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A flood of keys that were never seen before stays within MaxMemory, forgets no
// key that is spent, and does not keep a newcomer from being served.
func TestFloodOfFreshKeys(t *testing.T) {
	const maxKeys, flood = 10_000, 200_000
	for _, rule := range []core.Rule{
		core.TokenBucket("r", core.PerHour(10)),
		core.SlidingLog("r", core.PerHour(10)),
	} {
		t.Run(rule.Algorithm().String(), func(t *testing.T) {
			s := memstore.New(memstore.MaxMemory(40 * maxKeys))
			l := core.Must(core.New(s, rule))
			for range 10 {
				allow(t, l, "victim")
			}
			for i := range flood {
				allow(t, l, "flood"+strconv.Itoa(i))
			}
			if weight, limit := s.Weight(); weight > limit {
				t.Errorf("got a weight of %d bytes, expected at most %d", weight, limit)
			}
			if allow(t, l, "victim").Allowed {
				t.Error("the flood reset a spent key")
			}
			if !allow(t, l, "newcomer").Allowed {
				t.Error("a newcomer is denied")
			}
			if stats := s.Stats(); stats.Evicted < flood/2 || stats.Overflowed > 0 {
				t.Errorf("the counts are %+v", stats)
			}
		})
	}
}

// When every key is spent by its first event, nothing may be forgotten. What
// finds no room shares overflowBuckets: it is decided, strictly, and cannot get more
// than its limit by coming again.
func TestFloodOfSpentKeys(t *testing.T) {
	const maxKeys, flood = 1000, 100_000
	for _, rule := range []core.Rule{
		core.TokenBucket("r", core.PerHour(1)),
		core.SlidingLog("r", core.PerHour(1)),
	} {
		t.Run(rule.Algorithm().String(), func(t *testing.T) {
			s := memstore.New(memstore.MaxMemory(40 * maxKeys))
			now := time.Now().UnixMicro()
			s.SetClock(func() int64 { return now })
			l := core.Must(core.New(s, rule))
			allow(t, l, "victim")
			for i := range flood {
				allow(t, l, "flood"+strconv.Itoa(i))
			}
			if allow(t, l, "victim").Allowed {
				t.Error("the flood reset a spent key")
			}
			admitted := 0
			for range 100 {
				if allow(t, l, "late").Allowed {
					admitted++
				}
			}
			if admitted > 1 {
				t.Errorf("a key without a place of its own was admitted %d times, limit 1", admitted)
			}
			if bytes, bound := s.Bytes(), s.MaxBytes(1); bytes > bound {
				t.Errorf("got %d bytes, expected at most %d", bytes, bound)
			}
			now += time.Hour.Microseconds()
			for i := range 100 {
				if !allow(t, l, "later"+strconv.Itoa(i)).Allowed {
					t.Fatal("an hour later a key is still denied")
				}
			}
		})
	}
}

// Users who are too many for the store do not get more than their limit by
// pushing each other out, and the store does not outgrow its bound.
func TestTooManyUsersAreStillLimited(t *testing.T) {
	const users, limit = 3000, 100
	s := memstore.New(memstore.MaxMemory(40 * 23_000)) // room for 300 full logs
	now := time.Now().UnixMicro()
	s.SetClock(func() int64 { return now })
	l := core.Must(core.New(s, core.SlidingLog("r", core.PerHour(limit))))
	admitted := make([]int, users)
	for range 2 * limit {
		for u := range admitted {
			if allow(t, l, "user"+strconv.Itoa(u)).Allowed {
				admitted[u]++
			}
		}
		now += 1000
	}
	over := 0
	for _, n := range admitted {
		if n > limit {
			over++
		}
	}
	if over > 0 {
		t.Errorf("%d of %d users were admitted more than their limit", over, users)
	}
	if weight, limit := s.Weight(); weight < limit*3/4 || weight > limit {
		t.Errorf("got a weight of %d bytes, expected %d to %d", weight, limit*3/4, limit)
	}
}

// Logs that grow push out what is used less, so the bound holds for them too.
func TestGrowingLogsStayBounded(t *testing.T) {
	s := memstore.New(memstore.MaxMemory(40 * 5000))
	l := core.Must(core.New(s, core.SlidingLog("r", core.PerHour(1000))))
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300_000 {
		allow(t, l, "k"+strconv.Itoa(rng.IntN(2000)))
	}
	if weight, limit := s.Weight(); weight > limit {
		t.Errorf("got a weight of %d bytes, expected at most %d", weight, limit)
	}
}

// What has refilled makes room for what comes, without any cleaning up.
func TestIdleKeysMakeRoom(t *testing.T) {
	s := memstore.New(memstore.MaxMemory(40 * (1 << 20)))
	now := time.Now().UnixMicro()
	s.SetClock(func() int64 { return now })
	l := core.Must(core.New(s, core.TokenBucket("r", core.PerSecond(1))))
	for i := range 400_000 {
		allow(t, l, strconv.Itoa(i))
		now += 100 // every key is idle after 10 000 more
	}
	if weight, _ := s.Weight(); weight > 100_000*24 {
		t.Errorf("got %d buckets, expected fewer than 100 000, of which 10 000 are not idle", weight/24)
	}
}

func TestEachKeyHasItsOwnBucket(t *testing.T) {
	l := core.Must(core.New(memstore.New(), core.TokenBucket("r", core.PerHour(1))))
	for i := range 200_000 {
		if !allow(t, l, fmt.Sprint("key", i)).Allowed {
			t.Fatalf("key %d is denied its first event", i)
		}
	}
	for i := range 200_000 {
		if allow(t, l, fmt.Sprint("key", i)).Allowed {
			t.Fatalf("key %d is admitted a second event", i)
		}
	}
}

func TestMaxMemory_panics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("MaxMemory(0) did not panic")
		}
	}()
	memstore.MaxMemory(0)
}

// A log reaches its limit, however small the store is, and stays there.
func TestLogIsNotPushedOutByItself(t *testing.T) {
	for _, c := range []struct{ maxKeys, events int }{{1, 10}, {100, 200}, {10_000, 200}, {memstore.DefaultMaxMemory / 40, 20_000}} {
		s := memstore.New(memstore.MaxMemory(40 * c.maxKeys))
		now := time.Now().UnixMicro()
		s.SetClock(func() int64 { now++; return now })
		l := core.Must(core.New(s, core.SlidingLog("r", core.PerDay(c.events))))
		admitted := 0
		for range 3 * c.events {
			if allow(t, l, "one").Allowed {
				admitted++
			}
		}
		if admitted != c.events {
			t.Errorf("room for %d keys: %d were admitted, limit %d", c.maxKeys, admitted, c.events)
		}
	}
}

// What is stored is weighed right, whatever is done to it: an empty store weighs
// nothing.
func TestWeightsAddUp(t *testing.T) {
	ctx := context.Background()
	for _, make := range []func(string, core.Limit) core.Rule{
		core.TokenBucket, core.LeakyBucket, core.FixedWindow, core.SlidingLog, core.SlidingWindow,
	} {
		s := memstore.New(memstore.MaxMemory(40 * 64))
		now := time.Now().UnixMicro()
		s.SetClock(func() int64 { return now })
		l := core.Must(core.New(s, make("r", core.PerSecond(10))))
		for range 12 {
			for range 5 {
				allow(t, l, "one")
				now++
			}
			now += 900_000
			allow(t, l, "one")
			now += 200_000 // five have left
			if err := l.Credit(ctx, "one", 1); err != nil {
				t.Fatal(err)
			}
			now -= 300_000
			allow(t, l, "one")
			if _, err := l.Reset(ctx, "one"); err != nil {
				t.Fatal(err)
			}
		}
		if weight, limit := s.Weight(); weight != 0 {
			t.Errorf("got a weight of %d bytes (limit %d) in an empty store", weight, limit)
		}
	}
}

// Two keys of one decision may share a spillway: both charges count.
func TestSharedSpillwayCountsBoth(t *testing.T) {
	ctx := context.Background()
	for _, rule := range []core.Rule{core.TokenBucket("r", core.PerHour(10)), core.FixedWindow("r", core.PerHour(10))} {
		s := memstore.New(memstore.MaxMemory(40 * 1))
		now := time.Now().Truncate(time.Hour).UnixMicro()
		s.SetClock(func() int64 { return now })
		l := core.Must(core.New(s, rule))
		for i := range 1100 { // spent keys fill the store
			if _, err := l.AllowN(ctx, "victim"+strconv.Itoa(i), 10); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 60 {
			a, b := "a"+strconv.Itoa(i), "b"+strconv.Itoa(i)
			got := 0
			for range 40 {
				d, err := core.AllowTogether(ctx, core.Ask{Limiter: l, Key: a, Cost: 5}, core.Ask{Limiter: l, Key: b, Cost: 1})
				if err != nil {
					t.Fatal(err)
				}
				if d.Allowed {
					got += 5
				}
			}
			if got > 10 {
				t.Fatalf("%v: a key got %d, limit 10", &rule, got)
			}
		}
	}
}
