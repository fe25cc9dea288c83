package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/internal/waiters"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// subscribed returns nil when these servers, and no others of all, have the subscription of this process.
func subscribed(t *testing.T, prefix string, all []*redistest.Server, want ...*redistest.Server) error {
	t.Helper()
	channel := fmt.Sprint(prefix, "wake:", waiters.Process)
	for i, server := range all {
		n, err := server.Client().PubSubNumSub(t.Context(), channel).Result()
		testkit.Must(t, err)
		if has := n[channel] > 0; has != slices.Contains(want, server) {
			return fmt.Errorf("server %d has the subscription: %t", i, has)
		}
	}
	return nil
}

// The process subscribes on the servers where its callers wait for places, and on no others, also after a slot has moved.
func TestAcquire_servers(t *testing.T) {
	t.Parallel()
	cluster := steadyCluster(t)
	ring := []*redistest.Server{redistest.NewServer(t), redistest.NewServer(t), redistest.NewServer(t)}
	for _, c := range []struct {
		name    string
		servers []*redistest.Server
		open    func() redis.UniversalClient
	}{
		{"Cluster", cluster.Nodes[:3], func() redis.UniversalClient { return cluster.Client() }},
		{"Ring", ring, func() redis.UniversalClient {
			return redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"0": ring[0].Addr, "1": ring[1].Addr, "2": ring[2].Addr}})
		}},
	} {
		for _, mode := range modes {
			t.Run(c.name+"/"+mode.name, func(t *testing.T) {
				rdb, own := c.open(), "test:"+mode.name+":"
				s := newStore(rdb, append(mode.opts, redisstore.Prefix(own), redisstore.Timeout(waitLimit))...)
				rule := core.InFlight("jobs", 1)
				l := testkit.Limiter(t, s, rule)
				ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
				defer cancel()
				var held []*core.Reservation
				var keys []string
				var wg sync.WaitGroup
				for i, server := range c.servers[:2] {
					for n := 0; len(keys) == i; n++ { // a key of this server
						r, err := l.Reserve(ctx, fmt.Sprint("k", n), 1)
						testkit.Must(t, err)
						if server.Client().Exists(ctx, s.Key(fmt.Sprint("k", n), rule)).Val() > 0 {
							keys, held = append(keys, fmt.Sprint("k", n)), append(held, r)
						} else {
							testkit.Must(t, r.Release(ctx))
						}
					}
					wg.Go(func() {
						if _, err := l.Acquire(ctx, keys[i]); err != nil {
							t.Error(err)
						}
					})
					eventually(t, func() error { return subscribed(t, own+"test:", c.servers, c.servers[:i+1]...) })
				}
				if c.name == "Cluster" {
					slot := keyhash.Slot(tag(s.Key(keys[0], rule)))
					migrate(t, cluster, c.servers[0], c.servers[2], slot)
					eventually(t, func() error { return subscribed(t, own+"test:", c.servers, c.servers...) })
					defer migrate(t, cluster, c.servers[2], c.servers[0], slot)
				}
				for _, r := range held {
					testkit.Must(t, r.Release(ctx))
				}
				wg.Wait()
				testkit.Must(t, rdb.Close())
				eventually(t, func() error { return subscribed(t, own+"test:", c.servers) })
			})
		}
	}
}
