package stacks_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/lease"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/internal/servertest"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

const banTime = 10 * time.Minute

// bannedLimit is the rule of the tests of bans.
var bannedLimit = core.SlidingLog("api", core.PerHour(100)).BlockFor(banTime)

// A key that one process has closed is closed in all, until one end, and costs no call of Redis in the process that knows it.
func TestBan_processes(t *testing.T) {
	prefix := redistest.Prefix(t)
	var all []*core.Limiter
	var caches []*denycache.Store
	for range 3 {
		caches = append(caches, newRedis(t, prefix))
		all = append(all, testkit.Limiter(t, caches[len(caches)-1], bannedLimit))
	}
	testkit.Admit(t, all[0], "k", 100)
	testkit.Peek(t, all[1], "k") // its cache knows the denial before an event
	ends := map[int64]bool{}
	begun := time.Now()
	testkit.Concurrently(60, func(i int) {
		d, err := all[i%3].Allow(t.Context(), "k")
		if s := d.State(0); err != nil || d.Allowed || s.Ban <= banTime-time.Minute || s.Ban > banTime {
			t.Errorf("process %d: got %+v, %v", i%3, d, err)
		}
	})
	for i, l := range all {
		d := testkit.Allow(t, l, "k")
		ends[time.Now().Add(d.State(0).Ban).Round(time.Second).Unix()] = true
		before := caches[i].Stats().Misses
		for range 1000 {
			if d := testkit.Allow(t, l, "k"); d.Allowed || d.State(0).Ban <= 0 {
				t.Fatalf("process %d: got %+v", i, d)
			}
		}
		if calls, most := caches[i].Stats().Misses-before, uint64(1+time.Since(begun)/denycache.DefaultMaxAge); calls > most {
			t.Errorf("process %d: 1000 denials took %d calls, want at most %d", i, calls, most)
		}
	}
	if len(ends) > 2 {
		t.Errorf("the ban has the ends %v", ends)
	}
	if _, err := all[2].Reset(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, func() error { // the others know it a second later
		for i, l := range all {
			if d := testkit.Peek(t, l, "k"); !d.Allowed {
				return fmt.Errorf("process %d: got %+v after a Reset", i, d)
			}
		}
		return nil
	})
}

// A failing store is away, or answers one call too late, which has an effect.
type failing struct {
	core.Store
	away, late atomic.Bool
}

func (s *failing) Take(ctx context.Context, charges []driver.Charge) error {
	if s.away.Load() {
		return fmt.Errorf("%w: away", core.ErrUnavailable)
	}
	err := s.Store.Take(ctx, charges)
	if s.late.CompareAndSwap(true, false) {
		return fmt.Errorf("%w: late", core.ErrUnavailable)
	}
	return err
}

// A denial by the backup, in an outage or after a late reply, bans no key.
func TestBan_outage(t *testing.T) {
	for name, c := range map[string]struct {
		instances, events, admitted int
		late                        bool
	}{
		"ten processes":          {10, 20, 10, false},
		"one process":            {1, 120, 100, false},
		"one late reply, of ten": {10, 1, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			primary := &failing{Store: redisstore.New(redistest.Shared(t).Client(), "test", redisstore.Prefix(fmt.Sprintf("ban%d:", c.events)))}
			store := failover.New(primary, memstore.New(), failover.Instances(c.instances))
			t.Cleanup(func() { testkit.Must(t, store.Close()) })
			l := testkit.Limiter(t, store, bannedLimit)
			primary.away.Store(true)
			if c.late { // the backup has counted the key in an outage before
				for testkit.Allow(t, l, "k").Allowed {
				}
				primary.away.Store(false)
				servertest.Eventually(t, func() error { return primaryDecides(store, l) })
				primary.late.Store(true)
			}
			admitted, bans := 0, false
			for range c.events {
				d := testkit.Allow(t, l, "k")
				if bans = bans || d.State(0).Ban > 0; d.Allowed {
					admitted++
				}
			}
			if bans || !c.late && admitted != c.admitted {
				t.Errorf("in the outage: admitted %d, want %d, and a ban: %t", admitted, c.admitted, bans)
			}
			primary.away.Store(false)
			servertest.Eventually(t, func() error { return primaryDecides(store, l) })
			if d := testkit.Allow(t, l, "k"); !d.Allowed || d.State(0).Ban > 0 {
				t.Errorf("after the outage: got %+v", d)
			}
		})
	}
}

// primaryDecides asks l, and returns an error unless the primary of s decides.
func primaryDecides(s *failover.Store, l *core.Limiter) error {
	_, err := l.Peek(context.Background(), "another")
	if err == nil && s.State() != failover.Primary {
		err = errors.New("the backup decides")
	}
	return err
}

// A leased rule with a ban takes no more calls than without, except for one a second, and other processes know a ban within
// a second.
func TestBan_lease(t *testing.T) {
	prefix := redistest.Prefix(t)
	calls := func(rule core.Rule, events int) (n uint64, l *core.Limiter, took time.Duration) {
		s := lease.New(newRedis(t, prefix))
		t.Cleanup(func() { testkit.Must(t, s.Close()) })
		l = testkit.Limiter(t, s, rule)
		begun := time.Now()
		for range events {
			testkit.Admit(t, l, "k", 1)
		}
		return s.Stats().Calls, l, time.Since(begun)
	}
	limit := core.Per(10_000, 100*365*24*time.Hour) // which does not end during a test
	plain, _, _ := calls(core.FixedWindow("plain", limit), 3000)
	bans, one, took := calls(core.FixedWindow("bans", limit).BlockFor(banTime), 3000)
	if most := plain + 2 + uint64(took/time.Second); bans > most {
		t.Errorf("3000 events took %d calls, want at most %d", bans, most)
	}
	_, other, _ := calls(core.FixedWindow("bans", limit).BlockFor(banTime), 3000)
	for testkit.Allow(t, one, "k").Allowed {
	}
	if d := testkit.Allow(t, one, "k"); d.State(0).Ban <= 0 {
		t.Errorf("got %+v, want a ban", d)
	}
	begun := time.Now()
	servertest.Eventually(t, func() error {
		if d := testkit.Allow(t, other, "k"); d.Allowed || d.State(0).Ban <= 0 {
			return fmt.Errorf("got %+v", d)
		}
		return nil
	})
	if took := time.Since(begun); took > busy {
		t.Errorf("the other process knows the ban after %v", took)
	}
}

// On a Cluster, where each key is a script of its own, a decision bans the keys that it denies, and charges no other one.
func TestBan_cluster(t *testing.T) {
	store := denycache.New(redisstore.New(redistest.SharedCluster(t).Client(), "test", redisstore.Prefix(redistest.Prefix(t)), redisstore.Timeout(20*time.Second)))
	address := testkit.Limiter(t, store, core.SlidingLog("address", core.PerHour(3)).BlockFor(time.Minute))
	user := testkit.Limiter(t, store, core.LeakyBucket("user", core.PerHour(2)).BlockFor(banTime))
	for i := range 20 {
		a, u := fmt.Sprint("a", i), fmt.Sprint("u", i)
		together := func() core.Decision {
			d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: address, Key: a}, core.Ask{Limiter: user, Key: u})
			testkit.Must(t, err)
			return d
		}
		for range 2 {
			if d := together(); !d.Allowed {
				t.Fatalf("%s: got %+v", a, d)
			}
		}
		for range 2 {
			d := together()
			if of := d.State(1); d.Allowed || of.Ban <= banTime-time.Minute || d.RetryAfter < of.Ban || d.State(0).Ban > 0 {
				t.Errorf("%s: got %+v, want a ban of the user", a, d)
			}
		}
		if d := testkit.Allow(t, address, a); !d.Allowed || d.State(0).Remaining != 0 {
			t.Errorf("%s: got %+v, want the address without the denied events", a, d)
		}
	}
}

// On a Cluster, events that another limit denies ban no key of a limit that would be exhausted if they all held it.
func TestBan_clusterAtOnce(t *testing.T) {
	const addresses, most = 10, 3
	store := redisstore.New(redistest.SharedCluster(t).Client(), "test", redisstore.Prefix(redistest.Prefix(t)), redisstore.Timeout(20*time.Second))
	shared := testkit.Limiter(t, store, core.SlidingLog("shared", core.PerHour(1)))
	address := testkit.Limiter(t, store, core.SlidingLog("address", core.PerHour(most)).BlockFor(time.Minute))
	testkit.Admit(t, shared, "all", 1)
	testkit.Concurrently(8*addresses, func(i int) {
		d, err := core.AllowTogether(t.Context(), core.Ask{Limiter: address, Key: fmt.Sprint("a", i%addresses)}, core.Ask{Limiter: shared, Key: "all"})
		if err != nil || d.Allowed || d.State(0).Ban > 0 || !d.State(0).Allowed || d.State(1).Allowed {
			t.Errorf("got %+v, %v, want a denial by the shared limit", d, err)
		}
	})
	for i := range addresses {
		if d := testkit.Peek(t, address, fmt.Sprint("a", i)); !d.Allowed || d.State(0).Ban > 0 || d.State(0).Remaining != most {
			t.Errorf("address %d: got %+v, want no ban, and %d left", i, d, most)
		}
	}
}
