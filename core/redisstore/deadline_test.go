package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

const (
	short  = 50 * time.Millisecond // a deadline
	margin = 2 * time.Second       // the time that a busy machine may add; below every timeout of go-redis
)

// clients returns clients of a server and of a Cluster, with and without the option by which
// go-redis observes the deadlines of contexts.
func clients(t *testing.T, server string, cluster []string) map[string]redis.UniversalClient {
	all := make(map[string]redis.UniversalClient)
	for _, enabled := range []bool{false, true} {
		all[fmt.Sprint("client/enabled ", enabled)] = redis.NewClient(&redis.Options{Addr: server, ContextTimeoutEnabled: enabled})
		all[fmt.Sprint("cluster/enabled ", enabled)] = redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster, ContextTimeoutEnabled: enabled})
	}
	t.Cleanup(func() { // concurrently, because a client may wait for its commands
		var wg sync.WaitGroup
		for _, rdb := range all {
			wg.Go(func() { _ = rdb.Close() })
		}
		wg.Wait()
	})
	return all
}

// checkDeadline fails the test unless calls, two in sequence and then 50 at once, all end at the
// deadline.
func checkDeadline(t *testing.T, s *redisstore.Store) {
	l := testkit.Limiter(t, s, dailyRules()...)
	call := func() {
		start := time.Now()
		d, err := l.Allow(t.Context(), "k")
		took := time.Since(start)
		unavailable(t, d, err)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v, want context.DeadlineExceeded", err)
		}
		if took < short || took > short+margin {
			t.Errorf("the call returned after %v, want %v", took, short)
		}
	}
	const inSequence, atOnce = 2, 50
	before := s.Stats().Unavailable
	for range inSequence {
		call()
	}
	testkit.Concurrently(atOnce, func(int) { call() })
	if got := s.Stats().Unavailable - before; got != inSequence+atOnce {
		t.Errorf("%d failures were counted, want %d", got, inSequence+atOnce)
	}
}

// The server accepts connections and never replies, so no client gets past HELLO.
func TestStore_Take_silentServer(t *testing.T) {
	t.Parallel()
	onSilentServer(t, func(t *testing.T, rdb redis.UniversalClient, opts []redisstore.Option) {
		checkDeadline(t, newStore(rdb, append(opts, redisstore.Timeout(short))...))
	})
}

// onSilentServer runs f with every client and mode on a server that never replies. The server ends
// before the clients, which would otherwise wait for it.
func onSilentServer(t *testing.T, f func(*testing.T, redis.UniversalClient, []redisstore.Option)) {
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

// Servers pause while connections to them are open. After they resume, the clients work again.
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
	t.Run("paused", func(t *testing.T) {
		for _, u := range users {
			t.Run(u.name, func(t *testing.T) {
				t.Parallel()
				checkDeadline(t, u.store)
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
			t.Errorf("%s: the error of PING is %v, want none", u.name, err)
		}
	}
}

// A caller that leaves gets the error of its context, which does not count as a failure of Redis.
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
	onSilentServer(t, func(t *testing.T, rdb redis.UniversalClient, opts []redisstore.Option) {
		s := newStore(rdb, opts...)
		l := testkit.Limiter(t, s, dailyRules()...)
		for _, leave := range leaves {
			ctx, cancel := leave.ctx()
			start := time.Now()
			d, err := l.Allow(ctx, "k")
			took := time.Since(start)
			cancel()
			if !errors.Is(err, leave.want) || errors.Is(err, core.ErrUnavailable) || d.Allowed {
				t.Errorf("%s: the decision is %+v, %v, want %v", leave.name, d, err, leave.want)
			}
			if took > short+margin {
				t.Errorf("%s: the call returned after %v, want %v", leave.name, took, short)
			}
		}
		if n := s.Stats().Unavailable; n != 0 {
			t.Errorf("%d failures were counted, want 0", n)
		}
	})
}

// Calls on a Redis that is slower than the deadline do not close their connections.
func TestStore_Take_slowServer(t *testing.T) {
	t.Parallel()
	const size = 4
	server := redistest.Shared(t)
	for _, mode := range modes {
		for _, enabled := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/enabled %t", mode.name, enabled), func(t *testing.T) {
				t.Parallel()
				proxy := redistest.NewProxy(t, server.Addr)
				proxy.Delay(4 * short) // far beyond the deadline: a busy machine may deliver both at once
				rdb := server.Client(func(o *redis.Options) {
					o.Addr, o.PoolSize, o.ContextTimeoutEnabled = proxy.Addr, size, enabled
				})
				leave(t, newStore(rdb, append(mode.opts, redisstore.Timeout(short/5))...), 10)
				pools := 3 * size // a busy machine may end the wait for a connection that is being opened
				if mode.opts == nil {
					pools += 10 // go-redis 9.23 has another pool for pipelines, and uses both
				}
				if n := proxy.Conns(); n > pools {
					t.Errorf("200 calls have opened %d connections, want at most %d", n, pools)
				}
				proxy.Pass()
				testkit.Ask(t, testkit.Limiter(t, newStore(rdb, mode.opts...), dailyRules()...), "k", 1)
				if n := proxy.Conns(); n > pools {
					t.Errorf("after another call there were %d connections, want at most %d", n, pools)
				}
			})
		}
	}
}

// If a connection goes silent, as behind a firewall that has forgotten it, the decisions that are
// waiting on it fail, and later decisions do not.
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
			var later atomic.Bool // new connections do not use the proxy
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
			// After the first decision, the Store calls INFO on a connection.
			awaitInfo(t, admin, before)
			eventually(t, func() error {
				if stats := rdb.PoolStats(); stats.IdleConns != stats.TotalConns {
					return fmt.Errorf("%d connections are idle, want all %d", stats.IdleConns, stats.TotalConns)
				}
				return nil
			})
			later.Store(true)
			proxy.DropReplies(0)
			var lost atomic.Int64
			var wg sync.WaitGroup
			for range 8 { // one of them uses that connection, unless the INFO of the Store does
				wg.Go(func() {
					if _, err := l.Allow(t.Context(), "k"); err != nil {
						lost.Add(1)
					}
				})
			}
			wg.Wait()
			if lost.Load() == 0 && mode.opts != nil {
				t.Error("no decision failed, want one on the silent connection")
			}
			failed := 0
			for decided := 0; decided < 10; {
				if _, err := l.Allow(t.Context(), "k"); err == nil {
					decided++
				} else if failed++; failed > 5 {
					t.Fatalf("%d decisions failed, want at most 5: %v", failed, err)
				}
			}
		})
	}
}

// Decisions on a hundred keys wait for their replies at the same time. In sequence they would take
// twice the time that is allowed.
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
			testkit.Concurrently(keys, func(i int) { testkit.Admit(t, l, fmt.Sprint(i), 1) })
			if took := time.Since(start); took > keys*delay/2 {
				t.Errorf("%d keys took %v at a latency of %v, want at most %v", keys, took, delay, keys*delay/2)
			}
		})
	}
}

// The goroutines of calls whose callers have left are bounded, and end. This test counts the
// goroutines of the process, so it does not run in parallel.
func TestStore_Take_goroutines(t *testing.T) {
	const size = 5
	server := redistest.NewServer(t)
	for _, mode := range modes {
		for _, paused := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/paused %t", mode.name, paused), func(t *testing.T) {
				rdb := server.Client(func(o *redis.Options) {
					o.PoolSize, o.ReadTimeout, o.DialTimeout, o.MaxRetries = size, 6*short, 6*short, -1
					if !paused {
						o.Addr = silentServer(t)
					}
				})
				defer rdb.Close() // its goroutines must not be among those of the next case
				s := newStore(rdb, append(mode.opts, redisstore.Timeout(short/5))...)
				if paused { // opens connections
					testkit.Admit(t, testkit.Limiter(t, newStore(rdb, mode.opts...), dailyRules()...), "k", 1)
				}
				before := runtime.NumGoroutine()
				if paused {
					testkit.Must(t, server.Pause())
				}
				leave(t, s, 50)
				// A connection has goroutines of a call, a dial and the proxy of the test.
				if n := runtime.NumGoroutine() - before; n > 20*size {
					t.Errorf("there are %d more goroutines after the calls, want at most %d", n, 20*size)
				}
				if paused {
					testkit.Must(t, server.Resume())
				}
				eventually(t, func() error {
					// go-redis may keep connections, with four goroutines each in the proxy, and
					// some goroutines of its own. There were a thousand calls.
					if n := runtime.NumGoroutine(); n > before+5*size {
						stacks := make([]byte, 1<<20)
						return fmt.Errorf("there are %d goroutines, want at most %d\n%s", n, before+5*size, stacks[:runtime.Stack(stacks, true)])
					}
					return nil
				})
			})
		}
	}
}

// leave makes 20 calls that miss the deadline from each of a number of goroutines.
func leave(t *testing.T, s *redisstore.Store, goroutines int) {
	l := testkit.Limiter(t, s, dailyRules()...)
	testkit.Concurrently(goroutines, func(int) {
		for range 20 {
			d, err := l.Allow(t.Context(), "k")
			unavailable(t, d, err)
		}
	})
}

// A blockingLimiter blocks every tenth command.
type blockingLimiter struct{ calls atomic.Int64 }

func (l *blockingLimiter) Allow() error {
	if l.calls.Add(1)%10 == 0 {
		time.Sleep(margin + margin/2)
	}
	return nil
}

func (*blockingLimiter) ReportResult(error) {}

// A Limiter of the client that blocks does not hold callers beyond the deadline.
func TestStore_Take_blockingLimiter(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client(func(o *redis.Options) { o.Limiter = new(blockingLimiter) })
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			l := testkit.Limiter(t, newStore(rdb, append(mode.opts, redisstore.Timeout(short))...), largeRules()...)
			for range 30 {
				start := time.Now()
				if _, err := l.Allow(t.Context(), "k"); err != nil && !errors.Is(err, core.ErrUnavailable) {
					t.Error(err)
				}
				if took := time.Since(start); took > short+margin {
					t.Errorf("the call returned after %v, want %v", took, short)
				}
			}
		})
	}
}

// Callers that leave at random use their charges for other keys at once. The race detector finds a round trip that still
// reads them, and no decision is about the wrong key: a key without an event stays without a state.
func TestStore_Take_leaving(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]func(*testing.T) redis.UniversalClient{
		"server":  func(t *testing.T) redis.UniversalClient { return redistest.NewServer(t).Client() },
		"Cluster": func(t *testing.T) redis.UniversalClient { return redistest.SharedCluster(t).Client() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := client(t)
			store := redisstore.New(rdb, "test", prefix(), redisstore.Timeout(20*time.Millisecond))
			rules := []*driver.Compiled{
				testkit.Compiled(core.TokenBucket("bucket", core.PerSecond(1e6))), testkit.Compiled(core.SlidingLog("log", core.PerSecond(1e6))),
				testkit.Compiled(core.InFlight("places", 1000).Hold(10 * time.Second)), testkit.Compiled(core.LeakyBucket("queue", core.PerSecond(1e6))),
			}
			never := testkit.Compiled(core.FixedWindow("never", core.PerHour(1)))
			testkit.Concurrently(64, func(i int) {
				random := rand.New(rand.NewPCG(uint64(i), 1))
				charges, waiter := make([]driver.Charge, 3), new(driver.Waiter)
				for n := range 50 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(3000))*time.Microsecond)
					for j := range charges {
						rule := rules[(n+j)%len(rules)]
						charges[j] = driver.Charge{
							Key: fmt.Sprint("k", i%8+j*random.IntN(2)*8), Rule: rule, Op: driver.Spend, Cost: 1, MaxDelay: time.Second,
						}
						if rule.Kind.Holds {
							*waiter = driver.Waiter{Queue: int64(1000 + i), Age: time.Millisecond}
							charges[j].Waiter = waiter
						}
					}
					err := store.Take(ctx, charges)
					if err != nil && !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("caller %d: %v", i, err)
					}
					for j := range charges {
						charges[j] = driver.Charge{Key: "other", Rule: never, Op: driver.Debit, Cost: 1000}
					}
					*waiter = driver.Waiter{Queue: -1}
					cancel()
				}
			})
			peek := []driver.Charge{{Key: "other", Rule: never, Op: driver.Peek, Cost: 1}}
			eventually(t, func() error { return store.Take(t.Context(), peek) })
			if !peek[0].Verdict.Allowed || peek[0].Verdict.Remaining != 1 {
				t.Errorf("a key without events has the verdict %+v", peek[0].Verdict)
			}
		})
	}
}
