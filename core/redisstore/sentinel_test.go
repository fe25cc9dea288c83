package redisstore_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// replicated waits until the replica has all that the master has.
func replicated(t *testing.T, master *redis.Client) {
	t.Helper()
	eventually(t, func() error {
		if n, err := master.Wait(t.Context(), 1, time.Second).Result(); n < 1 {
			return fmt.Errorf("%d replicas have caught up: %w", n, err)
		}
		return nil
	})
}

// A failover in the middle of a window: what had reached the replica is still
// used, the rest of the limit is all that is left, and no more than what was
// admitted since the replica last kept up can be admitted twice.
func TestSentinel(t *testing.T) {
	t.Parallel()
	const limit, first = 1000, 700
	set := redistest.NewSentinel(t)
	own := prefix()
	type user struct {
		name string
		calm *core.Limiter // is not used while the master is away
		busy *core.Limiter
		once atomic.Int64 // admitted of busy
	}
	rules := func(name string) []core.Rule {
		return []core.Rule{core.TokenBucket(name+" bucket", core.PerDay(limit)), core.SlidingLog(name+" log", core.PerDay(limit))}
	}
	var all []*user
	for _, mode := range modes {
		rdb := set.Client(func(o *redis.FailoverOptions) { o.DialTimeout, o.ReadTimeout = 10*short, 10*short })
		s := redisstore.New(rdb, append([]redisstore.Option{own}, mode.opts...)...)
		patient := redisstore.New(rdb, append([]redisstore.Option{own, redisstore.Timeout(patience)}, mode.opts...)...)
		all = append(all, &user{
			name: mode.name,
			calm: testkit.Limiter(t, patient, rules(mode.name+" calm")...),
			busy: testkit.Limiter(t, s, rules(mode.name+" busy")...),
		})
	}
	for _, u := range all {
		testkit.Admit(t, u.calm, "k", first)
	}
	replicated(t, set.Master.Client())

	var stops []func()
	for _, u := range all {
		stops = append(stops, underLoad(t, 2, func() {
			if d, err := u.busy.Allow(t.Context(), "k"); err == nil && d.Allowed {
				u.once.Add(1)
			}
		}))
	}
	eventually(t, func() error {
		for _, u := range all {
			if u.once.Load() < 10 {
				return fmt.Errorf("%s: nothing is going on yet", u.name)
			}
		}
		return nil
	})
	began := time.Now()
	testkit.Must(t, set.Failover())
	for _, u := range all {
		eventually(t, func() error {
			for range 20 { // also over connections that were open before
				if _, err := u.calm.Peek(t.Context(), "k"); err != nil {
					return err
				}
			}
			return nil
		})
		t.Logf("%s: decisions again after %v", u.name, time.Since(began).Round(time.Millisecond))
		if got := testkit.Used(t, u.calm, "k"); !slices.Equal(got, []int{first, first}) {
			t.Errorf("%s: %v are used after the failover, want %d", u.name, got, first)
		}
		if d := testkit.Ask(t, u.calm, "k", limit-first+1); d.Allowed {
			t.Errorf("%s: more than the rest of the limit was admitted", u.name)
		}
		testkit.Admit(t, u.calm, "k", limit-first)
	}
	atFailover := make(map[string]int64)
	for _, u := range all {
		atFailover[u.name] = u.once.Load()
	}
	for _, u := range all {
		eventually(t, func() error {
			d, err := u.busy.Allow(t.Context(), "k")
			if err == nil && d.Allowed {
				u.once.Add(1)
				err = fmt.Errorf("%d are left", d.State(0).Remaining)
			}
			return err
		})
	}
	for _, stop := range stops {
		stop()
	}
	for _, u := range all {
		n := u.once.Load()
		t.Logf("%s: %d of %d were admitted across the failover, %d until the first decision after it", u.name, n, limit, atFailover[u.name])
		if n > limit+atFailover[u.name] {
			t.Errorf("%s: %d were admitted of %d, with %d before the failover", u.name, n, limit, atFailover[u.name])
		}
	}
}
