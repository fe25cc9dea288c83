package redisstore_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/redistest"
	"github.com/weir-go/weir/core/redisstore"
)

// One master dies: its keys cannot be decided, the keys of others can, and what
// a decision over both took from a living one comes back.
func TestClusterNodeDies(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	dead, alive := cluster.Nodes[0], cluster.Nodes[1]
	type user struct {
		name                string
		s                   *redisstore.Store
		l                   *core.Limiter
		living, other, lost string
	}
	var users []user
	for _, mode := range modes {
		rdb, own := cluster.Client(), prefix()
		s := redisstore.New(rdb, append([]redisstore.Option{own, redisstore.Timeout(4 * short)}, mode.opts...)...)
		u := user{mode.name, s, limiter(t, s, dailyRules()...), "", "", ""}
		u.living, u.other = identityOn(t, alive, s, "living"), identityOn(t, cluster.Nodes[2], s, "other")
		u.lost = identityOn(t, dead, s, "lost")
		patient := limiter(t, redisstore.New(rdb, append([]redisstore.Option{own, redisstore.Timeout(patience)}, mode.opts...)...), dailyRules()...)
		for _, identity := range []string{u.living, u.other, u.lost} {
			spend(t, patient, identity, 100)
		}
		users = append(users, u)
	}
	dead.Stop()
	for _, u := range users {
		t.Run(u.name, func(t *testing.T) {
			for range 3 {
				d, err := u.l.Allow(t.Context(), u.lost)
				unavailable(t, d, err)
				d, err = core.AllowAll(t.Context(),
					core.Ask{Limiter: u.l, Key: u.living, Cost: 10}, core.Ask{Limiter: u.l, Key: u.lost, Cost: 10}, core.Ask{Limiter: u.l, Key: u.other, Cost: 10})
				unavailable(t, d, err)
			}
			eventually(t, func() error { // giving back may outlast the call
				for _, identity := range []string{u.living, u.other} {
					d, err := u.l.Peek(t.Context(), identity)
					if err != nil {
						return err
					}
					if left := d.State(0).Remaining; left != 900 || d.State(1).Remaining != 900 {
						return fmt.Errorf("%s has %d and %d left, want 900", identity, left, d.State(1).Remaining)
					}
				}
				return nil
			})
			// Decisions elsewhere do not fail while those on the dead node do.
			var lost, failed atomic.Int64
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 5 {
						d, err := u.l.Allow(t.Context(), u.lost)
						unavailable(t, d, err)
						lost.Add(1)
					}
				})
			}
			for _, identity := range []string{u.living, u.other} {
				wg.Go(func() {
					for range 200 {
						if _, err := u.l.Allow(t.Context(), identity); err != nil {
							failed.Add(1)
							t.Logf("%s: %v", identity, err)
						}
					}
				})
			}
			wg.Wait()
			if failed.Load() > 0 {
				t.Errorf("of 400 decisions on living nodes %d failed beside %d on a dead one", failed.Load(), lost.Load())
			}
		})
	}
	dead.Start()
	for _, u := range users {
		eventually(t, func() error {
			_, err := u.l.Allow(t.Context(), u.lost)
			return err
		})
	}
}
