package redisstore_test

import (
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// Idle connections that were forgotten on the way to Redis are closed together, and long before the ReadTimeout.
func TestStore_ForgottenConnections(t *testing.T) {
	t.Parallel()
	const idle = 160
	server := redistest.Shared(t)
	for _, mode := range modes {
		for _, kind := range []string{"client", "ring"} {
			if kind == "ring" && mode.opts == nil {
				continue
			}
			t.Run(mode.name+"/"+kind, func(t *testing.T) {
				proxy := redistest.NewProxy(t, server.Addr)
				var rdb redis.UniversalClient
				if kind == "client" {
					rdb = redis.NewClient(&redis.Options{Addr: proxy.Addr, PoolSize: idle, ReadTimeout: 2 * waitLimit})
				} else {
					rdb = redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"only": proxy.Addr}, PoolSize: idle, ReadTimeout: 2 * waitLimit})
				}
				t.Cleanup(func() { _ = rdb.Close() })
				l := testkit.Limiter(t, newStore(rdb, append(mode.opts, redisstore.Timeout(short))...), dailyRules()...)
				eventually(t, func() error { // opens all connections
					var blocked sync.WaitGroup
					for range idle - int(rdb.PoolStats().TotalConns) {
						blocked.Go(func() { _ = rdb.BLPop(t.Context(), 100*time.Millisecond, "none").Err() })
					}
					blocked.Wait()
					_, err := l.Allow(t.Context(), "k")
					return err
				})
				proxy.Forget()
				begun := time.Now()
				failures := 0
				eventually(t, func() error {
					_, err := l.Allow(t.Context(), "k")
					if err != nil {
						failures++
					}
					return err
				})
				t.Logf("%d connections, %d failures in %v", rdb.PoolStats().TotalConns, failures, time.Since(begun))
			})
		}
	}
}
