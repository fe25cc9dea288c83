package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
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

// panicsAtTime is a hook that does not expect the command TIME.
type panicsAtTime struct{}

func (panicsAtTime) DialHook(next redis.DialHook) redis.DialHook { return next }

func (panicsAtTime) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "time" {
			panic("a command that the hook does not know")
		}
		return next(ctx, cmd)
	}
}

func (panicsAtTime) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A check survives hooks that panic, and a server that is slow keeps its connections.
func TestStore_IdleConnectionsStay(t *testing.T) {
	t.Parallel()
	const idle = 20
	server := redistest.Shared(t)
	for name, panics := range map[string]bool{"slow": false, "a hook panics": true} {
		t.Run(name, func(t *testing.T) {
			proxy := redistest.NewProxy(t, server.Addr)
			rdb := server.Client(func(o *redis.Options) { o.Addr, o.PoolSize, o.MinIdleConns = proxy.Addr, idle, idle })
			if panics {
				rdb.AddHook(panicsAtTime{})
			}
			l := testkit.Limiter(t, newStore(rdb, redisstore.Timeout(short)), dailyRules()...)
			eventually(t, func() error {
				if n := rdb.PoolStats().IdleConns; n < idle {
					return fmt.Errorf("%d connections are idle, want %d", n, idle)
				}
				_, err := l.Allow(t.Context(), "k")
				return err
			})
			before := rdb.PoolStats()
			proxy.Delay(3 * short)
			failures := 0
			for range 20 {
				if _, err := l.Allow(t.Context(), "k"); err != nil {
					failures++
				}
			}
			if failures < 10 { // on a busy machine, a reply and the timer of a deadline may be equally late
				t.Errorf("%d of 20 decisions of a slow server failed", failures)
			}
			proxy.Pass()
			eventually(t, func() error {
				_, err := l.Allow(t.Context(), "k")
				return err
			})
			if after := rdb.PoolStats(); after.Misses-before.Misses > 3 {
				t.Errorf("%d connections were opened, want at most 3: one may close at a deadline of a caller alone", after.Misses-before.Misses)
			}
		})
	}
}
