package failover_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/memstore"
)

// Whatever the primary did, and whenever it returns, it decides again soon.
func TestReturn(t *testing.T) {
	eachPrimary(t, func(t *testing.T, primary *flaky, under core.Store) {
		s := failover.New(under, memstore.New())
		defer s.Close()
		var longest time.Duration
		for i := range 60 {
			primary.set([]mood{refuse, hang, lose}[i%3])
			until(t, s, failover.Backup)
			time.Sleep(time.Duration(rand.Int64N(int64(3 * time.Second))))
			primary.set(well)
			begun := time.Now()
			until(t, s, failover.Primary)
			longest = max(longest, time.Since(begun))
			if i%10 == 0 {
				time.Sleep(time.Minute)
			}
		}
		if longest > 1501*time.Millisecond {
			t.Errorf("back after %v", longest)
		}
		t.Logf("back after %v at the latest", longest)
	})
}

// Nobody has to ask for the primary to come back.
func TestReturnWithoutTraffic(t *testing.T) {
	eachPrimary(t, func(t *testing.T, primary *flaky, under core.Store) {
		s := failover.New(under, memstore.New())
		defer s.Close()
		primary.set(refuse)
		until(t, s, failover.Backup)
		primary.set(well)
		time.Sleep(2 * time.Second)
		if s.State() != failover.Primary {
			t.Errorf("the state is %v", s.State())
		}
	})
}

// A primary that is away is asked by one probe at a time, and nothing is taken.
func TestProbes(t *testing.T) {
	eachPrimary(t, func(t *testing.T, primary *flaky, under core.Store) {
		s := failover.New(under, memstore.New())
		defer s.Close()
		l := limiter(t, s, perHour, core.SlidingLog("log", core.PerHour(10)))
		allow(t, l, "k")
		primary.set(hang)
		until(t, s, failover.Backup)
		calls := primary.calls.Load()
		for range 1000 {
			allow(t, l, "k")
			time.Sleep(10 * time.Millisecond)
			if n := primary.within(); n > 1 {
				t.Fatalf("%d probes at a time", n)
			}
		}
		if n := primary.calls.Load() - calls; n < 20 || n > 50 {
			t.Errorf("%d probes in 10 s", n)
		}
		primary.set(well)
		until(t, s, failover.Primary)
		if n := left(t, primary.Store, core.SlidingLog("log", core.PerHour(10)), "k"); n != 9 {
			t.Errorf("10 s of probes left %d of 10, want 9", n)
		}
	})
}

// A primary that is lost again while it recovers is probed as soon as any other.
func TestLostWhileRecovering(t *testing.T) {
	eachPrimary(t, func(t *testing.T, primary *flaky, under core.Store) {
		s := failover.New(under, memstore.New())
		defer s.Close()
		for range 20 {
			primary.set(refuse)
			until(t, s, failover.Backup)
			primary.set(well)
			until(t, s, failover.Recovering)
			primary.set(refuse)
			until(t, s, failover.Backup)
			probes := s.Stats().Probes
			time.Sleep(51 * time.Millisecond)
			if synctest.Wait(); s.Stats().Probes == probes {
				t.Fatal("no probe 51 ms after the primary was lost")
			}
		}
	})
}

// A key that the primary cannot decide does not keep it away for good.
func TestProbesChangeTheirQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := &choosy{flaky: newFlaky(refuse)}
		s := failover.New(primary, memstore.New())
		defer s.Close()
		l := limiter(t, s, perHour)
		for s.State() != failover.Backup {
			allow(t, l, "poison")
			time.Sleep(time.Millisecond)
		}
		primary.set(well)
		time.Sleep(10 * time.Second)
		if s.State() != failover.Backup {
			t.Fatal("the test proves nothing: the primary decides about poison")
		}
		for i := range 2000 {
			allow(t, l, fmt.Sprint("key ", i))
			time.Sleep(time.Millisecond)
		}
		if s.State() != failover.Primary {
			t.Errorf("the state is %v", s.State())
		}
	})
}

// A choosy store does not decide about poison.
type choosy struct{ *flaky }

func (c *choosy) Take(ctx context.Context, charges []driver.Charge) error {
	if strings.HasPrefix(charges[0].Key, "poison") {
		return errors.New("not this one")
	}
	return c.flaky.Take(ctx, charges)
}

// Calls come back to the primary bit by bit.
func TestRamp(t *testing.T) {
	eachPrimary(t, func(t *testing.T, primary *flaky, under core.Store) {
		s := failover.New(under, memstore.New())
		defer s.Close()
		primary.set(refuse)
		until(t, s, failover.Backup)
		primary.set(well)
		until(t, s, failover.Recovering)
		l := limiter(t, s, core.TokenBucket("ramp", core.PerSecond(1_000_000)))
		var parts []int64
		for range 5 {
			before := primary.spends.Load()
			for range 1000 {
				allow(t, l, "k")
				time.Sleep(100 * time.Microsecond)
			}
			parts = append(parts, primary.spends.Load()-before)
		}
		for i, n := range parts {
			if want := int64(100 + 200*i); n < want-80 || n > want+80 {
				t.Errorf("of each 1000 calls %d went to the primary, want 100, 300, 500, 700, 900", parts)
				break
			}
		}
	})
}

// Many processes that lost the primary together do not come back together.
func TestHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const processes = 50
		primary := newFlaky(refuse)
		var limiters []*core.Limiter
		var stores []*failover.Store
		for range processes {
			s := failover.New(primary, memstore.New())
			defer s.Close()
			stores = append(stores, s)
			limiters = append(limiters, limiter(t, s, core.TokenBucket("herd", core.PerSecond(1_000_000))))
		}
		for _, s := range stores {
			until(t, s, failover.Backup)
		}
		time.Sleep(10 * time.Second)
		primary.set(well)
		var slots []int64 // calls of the primary in 100 ms
		for range 20 {
			before := primary.calls.Load()
			for range 20 {
				for _, l := range limiters {
					allow(t, l, "k")
				}
				time.Sleep(5 * time.Millisecond)
			}
			slots = append(slots, primary.calls.Load()-before)
		}
		const all = 20 * processes
		if slots[0] > all/10 || slots[1] > all/2 || slots[19] != all {
			t.Errorf("calls of the primary in 100 ms, of %d: %d", all, slots)
		}
		t.Logf("calls of the primary in 100 ms, of %d: %d", all, slots)
	})
}

// A primary that comes and goes is seen less often than it does.
func TestFlapping(t *testing.T) {
	eachPrimary(t, func(t *testing.T, primary *flaky, under core.Store) {
		var changes atomic.Int64
		s := failover.New(under, memstore.New(), failover.OnChange(func(_, to failover.State, _ error) {
			if to == failover.Backup {
				changes.Add(1)
			}
		}))
		defer s.Close()
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 0; ; i++ {
				primary.set([]mood{well, hang}[i%2])
				select {
				case <-stop:
					return
				case <-time.After(200 * time.Millisecond):
				}
			}
		})
		l := limiter(t, s, core.TokenBucket("flap", core.PerSecond(1_000_000)))
		var waited atomic.Int64
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() {
				for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
					begun := time.Now()
					d, err := l.Allow(context.Background(), "k")
					switch took := time.Since(begun); {
					case err != nil || !d.Allowed || took > deadline:
						t.Errorf("after %v: %+v, %v", took, d, err)
					case took > 0:
						waited.Add(1)
					}
					time.Sleep(5 * time.Millisecond)
				}
			})
		}
		callers.Wait()
		close(stop)
		wg.Wait()
		if n := changes.Load(); n == 0 || n > 10 { // it went away 50 times
			t.Errorf("left %d times in 20 s", n)
		}
		t.Logf("left %d times in 20 s, %d decisions waited", changes.Load(), waited.Load())
	})
}
