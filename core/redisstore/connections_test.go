package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// A Redis that is slower than the deadline must not cost a connection a call.
func TestDeadlineChurn(t *testing.T) {
	t.Parallel()
	const size = 4
	server := redistest.Shared(t)
	for _, mode := range modes {
		for _, enabled := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/enabled %t", mode.name, enabled), func(t *testing.T) {
				t.Parallel()
				proxy := redistest.NewProxy(t, server.Addr)
				proxy.Delay(4 * short / 5)
				rdb := server.Client(func(o *redis.Options) {
					o.Addr, o.PoolSize, o.PipelinePoolSize, o.ContextTimeoutEnabled = proxy.Addr, size, size, enabled
				})
				opts := append([]redisstore.Option{prefix(), redisstore.Timeout(short / 5)}, mode.opts...)
				l := testkit.Limiter(t, redisstore.New(rdb, opts...), dailyRules()...)
				var wg sync.WaitGroup
				for range 10 {
					wg.Go(func() {
						for range 20 {
							d, err := l.Allow(t.Context(), "k")
							unavailable(t, d, err)
						}
					})
				}
				wg.Wait()
				pools := size
				if mode.opts != nil {
					pools += size // go-redis has one more for pipelines, and borrows from the other
				}
				if n := proxy.Conns(); n > pools {
					t.Errorf("200 calls have opened %d connections, the pools hold %d", n, pools)
				}
				proxy.Pass()
				patient := redisstore.New(rdb, append([]redisstore.Option{redisstore.Timeout(patience)}, mode.opts...)...)
				testkit.Ask(t, testkit.Limiter(t, patient, dailyRules()...), "k", 1)
				if n := proxy.Conns(); n > pools {
					t.Errorf("afterwards %d connections, the pools hold %d", n, pools)
				}
			})
		}
	}
}

// A connection that goes silent, as behind a firewall that forgets it, takes
// with it the decisions that are under way on it, and not those that follow.
func TestDeadlineSilentConnection(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.NewServer(t)
			admin := server.Client()
			before := infoCalls(t, admin)
			proxy := redistest.NewProxy(t, server.Addr)
			proxies := map[string]*redistest.Proxy{server.Addr: proxy}
			var later atomic.Bool // connections go straight to the server
			rdb := server.Client(func(o *redis.Options) {
				o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if later.Load() {
						return through(nil)(ctx, network, addr)
					}
					return through(proxies)(ctx, network, addr)
				}
			})
			opts := append([]redisstore.Option{prefix(), redisstore.Timeout(4 * short)}, mode.opts...)
			l := testkit.Limiter(t, redisstore.New(rdb, opts...), dailyRules()...)
			eventually(t, func() error {
				_, err := l.Allow(t.Context(), "k")
				return err
			})
			// The first decision makes the store ask about eviction, on a connection too.
			othersCalledInfo(t, admin, before)
			eventually(t, func() error {
				if stats := rdb.PoolStats(); stats.IdleConns != stats.TotalConns {
					return fmt.Errorf("of %d connections %d are idle", stats.TotalConns, stats.IdleConns)
				}
				return nil
			})
			later.Store(true)
			proxy.DropReplies(0)
			var lost atomic.Int64
			var wg sync.WaitGroup
			for range 8 { // one of them has that connection, or the Store's own question to the server
				wg.Go(func() {
					if _, err := l.Allow(t.Context(), "k"); err != nil {
						lost.Add(1)
					}
				})
			}
			wg.Wait()
			if lost.Load() == 0 && mode.opts != nil {
				t.Error("nothing was lost, so nothing was tested")
			}
			failed := 0
			for decided := 0; decided < 10; {
				if _, err := l.Allow(t.Context(), "k"); err == nil {
					decided++
				} else if failed++; failed > 5 {
					t.Fatalf("%d decisions have failed in turn, and it goes on: %v", failed, err)
				}
			}
		})
	}
}

// Latency is not bandwidth: decisions on a hundred keys wait side by side.
func TestDeadlineSideBySide(t *testing.T) {
	t.Parallel()
	const keys, delay = 100, 20 * time.Millisecond
	server := redistest.Shared(t)
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.NewProxy(t, server.Addr)
			proxy.Delay(delay)
			rdb := server.Client(func(o *redis.Options) { o.Addr, o.PoolSize = proxy.Addr, keys })
			l := testkit.Limiter(t, redisstore.New(rdb, append([]redisstore.Option{prefix(), redisstore.Timeout(patience)}, mode.opts...)...), dailyRules()...)
			start := time.Now()
			var wg sync.WaitGroup
			for i := range keys {
				wg.Go(func() { testkit.Admit(t, l, fmt.Sprint(i), 1) })
			}
			wg.Wait()
			if took := time.Since(start); took > keys*delay/2 {
				t.Errorf("%d keys took %v at a latency of %v", keys, took, delay)
			}
		})
	}
}

// What is left behind by callers that are gone is bounded, and goes too. This
// test counts the goroutines of the process: it runs beside no other.
func TestDeadlineGoroutines(t *testing.T) {
	const size = 5
	server := redistest.NewServer(t)
	for _, mode := range modes {
		for _, frozen := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/frozen %t", mode.name, frozen), func(t *testing.T) {
				rdb := server.Client(func(o *redis.Options) {
					o.PoolSize, o.ReadTimeout, o.DialTimeout, o.MaxRetries = size, 6*short, 6*short, -1
					if !frozen {
						o.Addr = silentServer(t)
					}
				})
				hasty := redisstore.New(rdb, append([]redisstore.Option{redisstore.Timeout(short / 5)}, mode.opts...)...)
				if frozen {
					patient := redisstore.New(rdb, append([]redisstore.Option{redisstore.Timeout(patience)}, mode.opts...)...)
					testkit.Admit(t, testkit.Limiter(t, patient, dailyRules()...), "k", 1) // over connections that are open before
				}
				before := runtime.NumGoroutine()
				if frozen {
					testkit.Must(t, server.Pause())
				}
				leave(t, hasty)
				// A connection has a call, a dial, and here the end that the test serves.
				if n := runtime.NumGoroutine() - before; n > 10*size {
					t.Errorf("the calls have left %d goroutines, the pool holds %d connections", n, size)
				}
				if frozen {
					testkit.Must(t, server.Resume())
				}
				eventually(t, func() error {
					if n := runtime.NumGoroutine(); n > before+size { // go-redis may keep some of its own
						return fmt.Errorf("%d goroutines, before there were %d", n, before)
					}
					return nil
				})
			})
		}
	}
}

// leave makes a thousand calls that nobody answers.
func leave(t *testing.T, s *redisstore.Store) {
	l := testkit.Limiter(t, s, dailyRules()...)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 20 {
				d, err := l.Allow(t.Context(), "k")
				unavailable(t, d, err)
			}
		})
	}
	wg.Wait()
}
