package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// Tokens that are held are lost by Close, which makes no call, and with a key that is evicted;
// those of a bucket until it has refilled by as much.
func TestStore_HeldTokensAreLost(t *testing.T) {
	for name, lose := range map[string]func(x *fixture, s *lease.Store){
		"close": func(x *fixture, s *lease.Store) {
			x.expect(0, 0, x.calls(func() { testkit.Must(x, s.Close()) }), "calls by Close")
		},
		"evict": func(x *fixture, s *lease.Store) {
			l := x.limiter(s, core.TokenBucket("other", core.PerHour(1000)))
			time.Sleep(trip)
			testkit.Admit(x, l, "0", 1)
			testkit.Admit(x, l, "1", 1)
		},
	} {
		for _, rule := range hourly {
			t.Run(name+" "+rule.Name(), func(t *testing.T) {
				bubble(t, func(x *fixture) {
					s := x.lease(lease.MaxKeys(2))
					const n = 1000
					x.expect(0, 30, x.calls(func() { x.admit(x.limiter(s, rule), n) }), "calls for 1000 events")
					held := int(s.Stats().Held)
					x.expect(100, n/2, held, "tokens, half of the use at most")
					lose(x, s)
					x.expect(0, 0, int(s.Stats().Held), "tokens")
					x.expect(50_000-n-held, 50_000-n-held+8, x.left(rule), "events left")
					time.Sleep(time.Duration(n+held+1) * time.Hour / 50_000)
					if left := x.left(rule); rule.Algorithm() == driver.TokenBucket && left != 50_000 {
						x.Errorf("expected a full bucket, got %d events left", left)
					}
				})
			})
		}
	}
}

// A closed Store passes all charges through. Closing it again does nothing.
func TestStore_Close_PassesThrough(t *testing.T) {
	bubble(t, func(x *fixture) {
		s := x.lease()
		x.admit(x.limiter(s, hourly[0]), 100)
		for range 2 {
			testkit.Must(x, s.Close())
		}
		for _, rules := range [][]core.Rule{hourly[:1], hourly} {
			l := x.limiter(s, rules...)
			x.expect(20, 20, x.calls(func() { x.admit(l, 20) }), "calls for 20 events")
		}
		if stats := s.Stats(); stats.Held != 0 || stats.Keys != 0 {
			x.Errorf("expected no token and no key, got %+v", stats)
		}
	})
}

// Close returns within Timeout while the Store behind hangs, and leaves no goroutine.
func TestStore_Close_StoreHangs(t *testing.T) {
	const timeout = 300 * time.Millisecond
	for name, callers := range map[string]int{"idle": 0, "during calls": 8} {
		for _, rule := range hangRules {
			t.Run(name+" "+rule.Name(), func(t *testing.T) {
				bubble(t, func(x *fixture) {
					s := x.lease(lease.Timeout(timeout))
					x.holdMany(s, rule, 20, 40)
					x.hang()
					l := x.limiter(s, rule)
					testkit.Concurrently(callers+1, func(i int) {
						if i < callers {
							_, _ = l.AllowN(x.Context(), fmt.Sprint("k", i), 500)
							return
						}
						time.Sleep(trip)
						begun := time.Now()
						if err := s.Close(); err != nil || time.Since(begun) > timeout {
							x.Errorf("expected no error within %v, got %v after %v", timeout, err, time.Since(begun))
						}
					})
					synctest.Wait()
					if stats := s.Stats(); stats.Held != 0 || x.behind.Active() != 0 {
						x.Errorf("expected no token and no call, got %d and %d", stats.Held, x.behind.Active())
					}
				})
			})
		}
	}
}

// Close returns an error if the Store behind goes on after the end of the context.
func TestStore_Close_StoreIgnoresContext(t *testing.T) {
	bubble(t, func(x *fixture) {
		blocked := make(chan struct{})
		x.behind.Set(func(context.Context, []driver.Charge, storetest.Call) error { <-blocked; return errHangs })
		s := lease.New(x.behind, lease.Timeout(time.Second))
		ctx, cancel := context.WithTimeout(x.Context(), time.Millisecond)
		defer cancel()
		_, _ = x.limiter(s, hangRules[0]).Allow(ctx, "k")
		for range 2 {
			begun := time.Now()
			if err := s.Close(); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
				x.Errorf("expected %v after 1s, got %v after %v", context.DeadlineExceeded, err, time.Since(begun))
			}
		}
		close(blocked)
	})
}

// Tokens that are held say nothing about the Store behind.
func TestStore_Probe_OfALeasedKey(t *testing.T) {
	refuses := errors.New("the Store behind refuses writes")
	behind := &storetest.Fake{OnProbe: func(context.Context, []driver.Charge) error { return refuses }}
	s := lease.New(behind)
	defer s.Close()
	rule := core.FixedWindow("year", core.Per(1_000_000, 365*24*time.Hour))
	l := testkit.Limiter(t, s, rule)
	for range 100 {
		testkit.Admit(t, l, "k", 1)
	}
	if s.Stats().Held == 0 {
		t.Fatal("expected tokens that are held, got none")
	}
	err := driver.Probe(t.Context(), s, []driver.Charge{{Key: "k", Rule: testkit.Compiled(rule), Op: driver.Peek, Cost: 1}})
	if !errors.Is(err, refuses) {
		t.Errorf("expected the error %q, got %v", refuses, err)
	}
}

// admitAll is a Hook that admits everything, and keeps nothing.
func admitAll(_ context.Context, charges []driver.Charge, _ storetest.Call) error {
	for i := range charges {
		c := &charges[i]
		c.Answer(&driver.Reading{}, true)
		c.Receipt = driver.Receipt{At: 1 << 50}
	}
	return nil
}

// Many keys stay within MaxKeys, and a key that is used all the time is not evicted.
func TestMaxKeys_Flood(t *testing.T) {
	testkit.WithoutRace(t)
	const maxKeys, keys = 4096, 30_000
	behind := new(storetest.Fake)
	behind.Set(admitAll)
	s := lease.New(behind, lease.MaxKeys(maxKeys))
	defer s.Close()
	l := testkit.Limiter(t, s, core.TokenBucket("b", core.PerHour(50_000)))
	before := testkit.Heap()
	for i := range keys {
		testkit.Admit(t, l, strconv.Itoa(i), 1)
		testkit.Admit(t, l, "hot", 1)
	}
	stats := s.Stats()
	if stats.Keys > maxKeys+64 {
		t.Errorf("expected %d keys at most, got %d", maxKeys+64, stats.Keys)
	}
	if each := (testkit.Heap() - before) / int64(stats.Keys); each > 380 {
		t.Errorf("expected 380 bytes a key at most, got %d", each)
	} else {
		t.Logf("a key takes %d bytes", each)
	}
	if hits := stats.Hits; hits < keys*9/10 {
		t.Errorf("expected nearly all of %d decisions about the hot key to be hits, got %d", keys, hits)
	}
	runtime.KeepAlive(s)
}

// Keys are as long as clients make them, and may be parts of longer strings.
func TestMaxKeys_LongKeys(t *testing.T) {
	behind := new(storetest.Fake)
	behind.Set(admitAll)
	s := lease.New(behind)
	defer s.Close()
	l := testkit.Limiter(t, s, core.TokenBucket("b", core.PerHour(50_000)))
	before := testkit.Heap()
	for i := range 20 {
		long := strings.Repeat("x", 1<<20) + strconv.Itoa(i)
		for _, key := range []string{long, long[1<<20-100:]} {
			testkit.Admit(t, l, key, 1)
		}
	}
	if grown := testkit.Heap() - before; grown > 4<<20 {
		t.Errorf("expected 4 MB at most for 20 keys of 1 MB, got %d bytes", grown)
	}
	if n := s.Stats().Keys; n != 20 {
		t.Errorf("expected the 20 short keys, got %d", n)
	}
	runtime.KeepAlive(s)
}

// Accounts of several plans are evicted one by one.
func TestMaxKeys_Plans(t *testing.T) {
	bubbleEach(t, hourly, func(x *fixture, rule core.Rule) {
		rng, names := rand.New(rand.NewPCG(1, 1)), []string{"", "b", "c", "d"}
		for _, name := range names[1:] {
			rule = rule.Plan(name, core.PerHour(50_000+len(name)))
		}
		s := x.lease(lease.MaxKeys(3))
		l := x.limiter(s, rule)
		for range 3000 {
			x.admit(l.Plan(names[rng.IntN(len(names))]), 1)
			if n := s.Stats().Keys; n > 3 {
				x.Fatalf("expected 3 accounts, got %d", n)
			}
		}
		time.Sleep(time.Second)
		x.expect(3, 3, s.Stats().Keys, "accounts")
		testkit.Must(x, s.Close())
		if stats := s.Stats(); stats.Keys != 0 || stats.Held != 0 {
			x.Errorf("expected no account after Close, got %+v", stats)
		}
	})
}
