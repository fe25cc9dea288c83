package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

const (
	short  = 50 * time.Millisecond // a deadline that has to be kept
	margin = 2 * time.Second       // and how much a busy machine may add; below every timeout of go-redis
)

// clients connect to a server, or to a Cluster, at addrs in every set-up that changes the way in
// which go-redis treats deadlines.
func clients(t *testing.T, server string, cluster []string) map[string]redis.UniversalClient {
	all := make(map[string]redis.UniversalClient)
	for _, enabled := range []bool{false, true} {
		all[fmt.Sprint("client/enabled ", enabled)] = redis.NewClient(&redis.Options{Addr: server, ContextTimeoutEnabled: enabled})
		all[fmt.Sprint("cluster/enabled ", enabled)] = redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster, ContextTimeoutEnabled: enabled})
	}
	t.Cleanup(func() { // at once: a client may wait for what is under way
		var wg sync.WaitGroup
		for _, rdb := range all {
			wg.Go(func() { _ = rdb.Close() })
		}
		wg.Wait()
	})
	return all
}

// late fails the test unless calls, some one after another and then many at
// once, all end at the deadline.
func late(t *testing.T, s *redisstore.Store) {
	l := testkit.Limiter(t, s, dailyRules()...)
	call := func() {
		start := time.Now()
		d, err := l.Allow(t.Context(), "k")
		took := time.Since(start)
		unavailable(t, d, err)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v, want the deadline in it", err)
		}
		if took < short || took > short+margin {
			t.Errorf("a deadline of %v was kept after %v", short, took)
		}
	}
	const inTurn, atOnce = 2, 50
	before := s.Stats().Unavailable
	for range inTurn {
		call()
	}
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(call)
	}
	wg.Wait()
	if got := s.Stats().Unavailable - before; got != inTurn+atOnce {
		t.Errorf("%d failures were counted, want %d", got, inTurn+atOnce)
	}
}

// A listener that accepts and never speaks: nothing gets past the greeting.
func TestStore_Take_silentServer(t *testing.T) {
	t.Parallel()
	silently(t, func(t *testing.T, rdb redis.UniversalClient, opts []redisstore.Option) {
		late(t, newStore(rdb, append(opts, redisstore.Timeout(short))...))
	})
}

// silently runs f with every client and mode, in front of a server that does not
// speak. The server ends before the clients, which would otherwise wait for it.
func silently(t *testing.T, f func(*testing.T, redis.UniversalClient, []redisstore.Option)) {
	t.Run("silent", func(silent *testing.T) {
		addr := silentServer(silent)
		for _, mode := range modes {
			for name, rdb := range clients(t, addr, []string{addr}) {
				silent.Run(mode.name+"/"+name, func(t *testing.T) {
					t.Parallel()
					f(t, rdb, mode.opts)
				})
			}
		}
	})
}

// Servers that freeze while connections to them are open, and thaw. The clients
// work again afterwards: nobody has closed them.
func TestStore_Take_frozenServer(t *testing.T) {
	t.Parallel()
	server, cluster := redistest.NewServer(t), steadyCluster(t)
	nodes := append([]*redistest.Server{server}, cluster.Nodes...)
	type user struct {
		name  string
		rdb   redis.UniversalClient
		store *redisstore.Store
	}
	var users []user
	for _, mode := range modes {
		for name, rdb := range clients(t, server.Addr, cluster.Addrs()) {
			own := prefix()
			testkit.Admit(t, testkit.Limiter(t, newStore(rdb, own), dailyRules()...), "k", 1)
			users = append(users, user{mode.name + "/" + name, rdb, newStore(rdb, append(mode.opts, own, redisstore.Timeout(short))...)})
		}
	}
	for _, node := range nodes {
		testkit.Must(t, node.Pause())
	}
	t.Run("frozen", func(t *testing.T) {
		for _, u := range users {
			t.Run(u.name, func(t *testing.T) {
				t.Parallel()
				late(t, u.store)
			})
		}
	})
	for _, node := range nodes {
		testkit.Must(t, node.Resume())
	}
	for _, u := range users {
		l := testkit.Limiter(t, u.store, dailyRules()...)
		eventually(t, func() error {
			_, err := l.Allow(t.Context(), "k")
			return err
		})
		if err := u.rdb.Ping(t.Context()).Err(); err != nil {
			t.Errorf("%s: the user's client: %v", u.name, err)
		}
	}
}

// A caller that leaves hears of its own context, and Redis is not to blame.
func TestStore_Take_callerLeaves(t *testing.T) {
	t.Parallel()
	leaves := []struct {
		name string
		want error
		ctx  func() (context.Context, context.CancelFunc)
	}{
		{"deadline", context.DeadlineExceeded, func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), short)
		}},
		{"cancel", context.Canceled, func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(short, cancel)
			return ctx, cancel
		}},
		{"past", context.DeadlineExceeded, func() (context.Context, context.CancelFunc) {
			return context.WithDeadline(context.Background(), time.Unix(0, 0))
		}},
	}
	silently(t, func(t *testing.T, rdb redis.UniversalClient, opts []redisstore.Option) {
		s := newStore(rdb, opts...)
		l := testkit.Limiter(t, s, dailyRules()...)
		for _, leave := range leaves {
			ctx, cancel := leave.ctx()
			start := time.Now()
			d, err := l.Allow(ctx, "k")
			took := time.Since(start)
			cancel()
			if !errors.Is(err, leave.want) || errors.Is(err, core.ErrUnavailable) || d.Allowed {
				t.Errorf("%s: %+v, %v", leave.name, d, err)
			}
			if took > short+margin {
				t.Errorf("%s: the caller was held for %v", leave.name, took)
			}
		}
		if n := s.Stats().Unavailable; n != 0 {
			t.Errorf("%d failures of Redis were counted", n)
		}
	})
}

// A Redis that is slower than the deadline does not cost a connection a call.
func TestStore_Take_slowServer(t *testing.T) {
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
				leave(t, newStore(rdb, append(mode.opts, redisstore.Timeout(short/5))...), 10)
				pools := size
				if mode.opts != nil {
					pools += size // go-redis has one more for pipelines, and borrows from the other
				}
				if n := proxy.Conns(); n > pools {
					t.Errorf("200 calls have opened %d connections, the pools hold %d", n, pools)
				}
				proxy.Pass()
				testkit.Ask(t, testkit.Limiter(t, newStore(rdb, mode.opts...), dailyRules()...), "k", 1)
				if n := proxy.Conns(); n > pools {
					t.Errorf("afterwards %d connections, the pools hold %d", n, pools)
				}
			})
		}
	}
}

// A connection that goes silent, as behind a firewall that forgets it, takes
// with it the decisions that are under way on it, and not those that follow.
func TestStore_Take_silentConnection(t *testing.T) {
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
			l := testkit.Limiter(t, newStore(rdb, append(mode.opts, redisstore.Timeout(4*short))...), dailyRules()...)
			eventually(t, func() error {
				_, err := l.Allow(t.Context(), "k")
				return err
			})
			// The first decision makes the store ask about eviction, on a connection too.
			awaitInfo(t, admin, before)
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

// Decisions on a hundred keys wait for their replies at the same time. One after the other they
// would take twice as long as they may.
func TestStore_Take_latency(t *testing.T) {
	t.Parallel()
	const keys, delay = 100, 100 * time.Millisecond
	server := redistest.Shared(t)
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.NewProxy(t, server.Addr)
			proxy.Delay(delay)
			rdb := server.Client(func(o *redis.Options) { o.Addr, o.PoolSize = proxy.Addr, keys })
			l := testkit.Limiter(t, newStore(rdb, mode.opts...), dailyRules()...)
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
func TestStore_Take_goroutines(t *testing.T) {
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
				hasty := newStore(rdb, append(mode.opts, redisstore.Timeout(short/5))...)
				if frozen { // over connections that are open before
					testkit.Admit(t, testkit.Limiter(t, newStore(rdb, mode.opts...), dailyRules()...), "k", 1)
				}
				before := runtime.NumGoroutine()
				if frozen {
					testkit.Must(t, server.Pause())
				}
				leave(t, hasty, 50)
				// A connection has a call, a dial, and here the end that the test serves.
				if n := runtime.NumGoroutine() - before; n > 10*size {
					t.Errorf("the calls have left %d goroutines, the pool holds %d connections", n, size)
				}
				if frozen {
					testkit.Must(t, server.Resume())
				}
				eventually(t, func() error {
					// go-redis may keep connections, with four goroutines each at the end that the
					// test serves, and some goroutines of its own; the calls were a thousand.
					if n := runtime.NumGoroutine(); n > before+5*size {
						return fmt.Errorf("%d goroutines, before there were %d", n, before)
					}
					return nil
				})
			})
		}
	}
}

// leave makes 20 calls that nobody answers from each of so many goroutines.
func leave(t *testing.T, s *redisstore.Store, goroutines int) {
	l := testkit.Limiter(t, s, dailyRules()...)
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range 20 {
				d, err := l.Allow(t.Context(), "k")
				unavailable(t, d, err)
			}
		})
	}
	wg.Wait()
}
