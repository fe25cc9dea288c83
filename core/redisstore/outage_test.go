package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// clientKinds returns clients of one address, as the address of a server and of a Cluster node.
func clientKinds(t *testing.T, addr string) map[string]redis.UniversalClient {
	single := redis.NewClient(&redis.Options{Addr: addr})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}})
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"only": addr}})
	t.Cleanup(func() {
		_, _, _ = single.Close(), cluster.Close(), ring.Close()
	})
	return map[string]redis.UniversalClient{"client": single, "cluster": cluster, "ring": ring}
}

// A Store can be made while Redis is absent, and uses Redis once it is there.
func TestStore_Take_absentServer(t *testing.T) {
	t.Parallel()
	const timeout = 200 * time.Millisecond
	server := redistest.NewServer(t)
	testkit.Must(t, server.Stop())
	for _, mode := range modes {
		for name, rdb := range clientKinds(t, server.Addr) {
			if name == "ring" && mode.opts != nil {
				continue // New panics
			}
			t.Run(mode.name+"/"+name, func(t *testing.T) {
				s := newStore(rdb, append(mode.opts, redisstore.Timeout(timeout))...)
				l, key := testkit.Limiter(t, s, dailyRules()...), s.Key("mallory", dailyRules()[0])
				testkit.Concurrently(10, func(int) {
					start := time.Now()
					d, err := l.Allow(t.Context(), "mallory")
					unavailable(t, d, err)
					if took := time.Since(start); took > timeout+margin {
						t.Errorf("a decision took %v, want at most %v", took, timeout)
					}
					discreet(t, err, "mallory", key, key[strings.Index(key, "{")+1:strings.Index(key, "}")])
				})
				if n := s.Stats().Unavailable; n != 10 {
					t.Errorf("%d failures were counted, want 10", n)
				}
			})
		}
	}
	l := testkit.Limiter(t, newStore(server.Client(), redisstore.Timeout(timeout)), dailyRules()...)
	d, err := l.Allow(t.Context(), "k")
	unavailable(t, d, err)
	testkit.Must(t, server.Start())
	eventually(t, func() error {
		_, err := l.Allow(t.Context(), "k")
		return err
	})
}

// TestStore_Take_unusableClient has a name that does not resolve, a server that needs a password,
// and a closed client.
func TestStore_Take_unusableClient(t *testing.T) {
	t.Parallel()
	locked := redistest.NewServer(t, "--requirepass", "swordfish").Addr
	for name, opts := range map[string]redis.Options{
		"no such host": {Addr: "weir.invalid:6379"},
		"no password":  {Addr: locked},
		"bad password": {Addr: locked, Password: "guess"},
		"closed":       {Addr: locked, Password: "swordfish"},
	} {
		for _, mode := range modes {
			t.Run(name+"/"+mode.name, func(t *testing.T) {
				rdb := redis.NewClient(&opts)
				t.Cleanup(func() { _ = rdb.Close() })
				l := testkit.Limiter(t, newStore(rdb, append(mode.opts, redisstore.Timeout(short))...), dailyRules()...)
				if name == "closed" {
					_ = rdb.Close()
				}
				d, err := l.Allow(t.Context(), "mallory")
				unavailable(t, d, err)
				discreet(t, err, "mallory", "swordfish", "guess")
			})
		}
	}
}

// A server whose memory is full admits no event and keeps its states.
func TestStore_Take_noMemory(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t, "--maxmemory-policy", "noeviction")
	rdb := server.Client()
	for _, mode := range modes {
		for _, a := range testkit.Algorithms {
			t.Run(mode.name+"/"+a.Name, func(t *testing.T) {
				s := newStore(rdb, mode.opts...)
				l := testkit.Limiter(t, s, a.Rule("rule", core.PerDay(10)), a.Rule("other", core.PerDay(20)))
				testkit.Admit(t, l, "spent", 10)
				testkit.Admit(t, l, "half", 5)
				limitMemory(t, rdb, "1mb")
				for _, key := range []string{"half", "new"} {
					d, err := l.Allow(t.Context(), key)
					unavailable(t, d, err)
					discreet(t, err, s.Key(key, l.Rules()[0]))
				}
				if d, err := l.Allow(t.Context(), "spent"); err == nil && d.Allowed {
					t.Errorf("the decision on a used-up key is %+v, want a denial", d)
				}
				limitMemory(t, rdb, "0")
				for key, want := range map[string]int{"spent": 10, "half": 5, "new": 0} {
					if got := testkit.Used(t, l, key); got[0] != want || got[1] != want {
						t.Errorf("%s has used %v, want %d", key, got, want)
					}
				}
				testkit.Admit(t, l, "half", 5)
			})
		}
	}
}

// A server that is flushed, or evicts its keys, admits all of each limit again. An event whose place was lost is told,
// and another event has the place.
func TestStore_Take_lostKeys(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t, "--maxmemory-policy", "allkeys-lru")
	rdb := server.Client()
	for name, lose := range map[string]func(t *testing.T){
		"flushed": func(t *testing.T) { testkit.Must(t, rdb.FlushAll(t.Context()).Err()) },
		"evicted": func(t *testing.T) {
			limitMemory(t, rdb, "1mb")
			limitMemory(t, rdb, "0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(rdb)
			var limiters []*core.Limiter
			for _, a := range testkit.Algorithms {
				l := testkit.Limiter(t, s, a.Rule(a.Name, core.PerDay(10)))
				testkit.Admit(t, l, "k", 10)
				limiters = append(limiters, l)
			}
			places := testkit.Limiter(t, s, core.InFlight("places", 1).Hold(3*time.Second))
			first := testkit.Reserve(t, places, "k", 1)
			lose(t)
			for _, l := range limiters {
				testkit.Admit(t, l, "k", 10)
			}
			second := testkit.Reserve(t, places, "k", 1)
			if !second.Decision().Allowed {
				t.Errorf("the decision about the lost place is %+v, want an admission", second.Decision())
			}
			select {
			case <-first.Lost():
			case <-time.After(waitLimit):
				t.Error("the first event was not told that its place is lost")
			}
			testkit.Must(t, first.Release(t.Context()))
			if used := testkit.Used(t, places, "k")[0]; used != 1 {
				t.Errorf("%d places are taken after the release of the lost one, want 1", used)
			}
			testkit.Must(t, second.Release(t.Context()))
		})
	}
}

// limitMemory sets maxmemory, and waits until the server is full or, for "0", accepts writes.
func limitMemory(t *testing.T, rdb *redis.Client, limit string) {
	t.Helper()
	testkit.Must(t, rdb.ConfigSet(t.Context(), "maxmemory", limit).Err())
	eventually(t, func() error {
		err := rdb.Set(context.Background(), "filler"+limit, strings.Repeat("x", 1<<20), 0).Err()
		if full := redis.IsOOMError(err); full == (limit == "0") || err != nil && !full {
			return fmt.Errorf("with maxmemory %s: %w", limit, err)
		}
		return nil
	})
}

// A server that is started again replies with LOADING while it reads its data. Decisions fail and
// are not charged during that time. Then the states are those of before the stop.
func TestStore_Take_loadingServer(t *testing.T) {
	t.Parallel()
	const before, filler = 600, 2000
	server := redistest.NewServer(t,
		"--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024") // a second for the filler
	rdb := server.Client()
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			own := prefix()
			l := testkit.Limiter(t, newStore(server.Client(), append(mode.opts, own, redisstore.Timeout(2*short))...), largeRules()...)
			testkit.Admit(t, testkit.Limiter(t, newStore(rdb, append(mode.opts, own)...), largeRules()...), "k", before)
			pipe := rdb.Pipeline()
			for i := range filler {
				pipe.Set(t.Context(), fmt.Sprint("filler ", i), strings.Repeat("x", 1000), 0)
			}
			_, err := pipe.Exec(t.Context())
			testkit.Must(t, err)
			testkit.Must(t, rdb.Save(t.Context()).Err())
			testkit.Must(t, server.Stop())
			load := startLoad(t, 4, l, "k")
			testkit.Must(t, server.Start())
			load.admit(t, 100)
			load.check(t, before)
			loading := false
			load.failures.Range(func(text, _ any) bool {
				loading = loading || strings.Contains(text.(string), "LOADING")
				return !loading
			})
			if !loading {
				t.Error("no decision failed with LOADING, want at least one")
			}
		})
	}
}

// One master stops. Decisions on its keys fail, decisions on other masters do not, and the charges
// of joint decisions on other masters are undone.
func TestCluster_deadMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t)
	var outages []*outage
	for _, mode := range modes {
		rdb, own := cluster.Client(), prefix()
		s := newStore(rdb, append(mode.opts, own, redisstore.Timeout(6*short))...)
		o := &outage{name: mode.name, limiter: testkit.Limiter(t, s, dailyRules()...)}
		o.observer = testkit.Limiter(t, newStore(rdb, append(mode.opts, own)...), dailyRules()...)
		o.lost = identityOn(t, cluster.Nodes[0], s, "lost")
		o.living = []string{identityOn(t, cluster.Nodes[1], s, "living"), identityOn(t, cluster.Nodes[2], s, "other")}
		for _, identity := range append(o.living, o.lost) {
			testkit.Admit(t, o.observer, identity, 100)
		}
		outages = append(outages, o)
	}
	testkit.Must(t, cluster.Nodes[0].Stop())
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			o.checkUndo(t)
			o.checkLiving(t)
		})
	}
	testkit.Must(t, cluster.Nodes[0].Start())
	for _, o := range outages {
		eventually(t, func() error {
			_, err := o.limiter.Allow(t.Context(), o.lost)
			return err
		})
	}
}

// An outage is a Cluster with one dead node and limiters with the same states.
type outage struct {
	name     string
	limiter  *core.Limiter // with a short deadline
	observer *core.Limiter // with a long deadline
	lost     string        // an identity on the dead node
	living   []string      // identities on the other nodes
}

// checkUndo makes joint decisions until three were undone. A charge on a living node may stay, as
// documented, if a busy machine delays the reply of that node beyond the deadline.
func (o *outage) checkUndo(t *testing.T) {
	t.Helper()
	undone, joint := 0, 0
	eventually(t, func() error {
		before := o.used(t)
		d, err := o.limiter.Allow(t.Context(), o.lost)
		unavailable(t, d, err)
		d, err = core.AllowTogether(t.Context(), core.Ask{Limiter: o.limiter, Key: o.living[0], Cost: 10},
			core.Ask{Limiter: o.limiter, Key: o.lost, Cost: 10}, core.Ask{Limiter: o.limiter, Key: o.living[1], Cost: 10})
		unavailable(t, d, err)
		joint++
		for deadline := time.Now().Add(margin); time.Now().Before(deadline); { // the undo may outlast the call
			if slices.Equal(before, o.used(t)) {
				undone++
				break
			}
		}
		if undone < 3 {
			return fmt.Errorf("%d of %d joint decisions were undone, want 3", undone, joint)
		}
		return nil
	})
}

func (o *outage) used(t *testing.T) []int {
	t.Helper()
	return append(testkit.Used(t, o.observer, o.living[0]), testkit.Used(t, o.observer, o.living[1])...)
}

// checkLiving makes decisions on living nodes while decisions on the dead node fail. At most a
// tenth may fail, because a busy machine may delay them. Decisions that wait for the dead node
// would all fail.
func (o *outage) checkLiving(t *testing.T) {
	t.Helper()
	const calls = 200
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				d, err := o.limiter.Allow(t.Context(), o.lost)
				unavailable(t, d, err)
			}
		})
	}
	for _, identity := range o.living {
		wg.Go(func() {
			failed := 0
			for range calls {
				if _, err := o.limiter.Allow(t.Context(), identity); err != nil {
					failed++
					t.Logf("%s: %v", identity, err)
				}
			}
			if failed > calls/10 {
				t.Errorf("%d of %d decisions on a living node failed, want at most a tenth", failed, calls)
			}
		})
	}
	wg.Wait()
}

// A master becomes a replica, and its name then belongs to another server. go-redis closes
// connections on which it reads READONLY, so the next attempt of a decision dials the new master.
func TestStore_Take_demotedMaster(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		for name, rules := range map[string][]core.Rule{"bucket": dailyRules()[:1], "two rules": dailyRules()} {
			t.Run(mode.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				older, newer := redistest.NewServer(t), redistest.NewServer(t)
				var master atomic.Pointer[redistest.Server]
				master.Store(older)
				rdb := older.Client(func(o *redis.Options) {
					o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
						return new(net.Dialer).DialContext(ctx, network, master.Load().Addr)
					}
				})
				l := testkit.Limiter(t, newStore(rdb, mode.opts...), rules...)
				testkit.Admit(t, l, "k", 1)
				host, port, _ := strings.Cut(newer.Addr, ":")
				testkit.Must(t, older.Client().ReplicaOf(t.Context(), host, port).Err())
				master.Store(newer)
				testkit.Admit(t, l, "k", 1)
			})
		}
	}
}

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
					testkit.Concurrently(idle-int(rdb.PoolStats().TotalConns), func(int) { _ = rdb.BLPop(t.Context(), 100*time.Millisecond, "none").Err() })
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

// A server that was started again has neither scripts nor states.
func TestStore_Take_serverRestart(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			s := newStore(server.Client(), mode.opts...)
			l := testkit.Limiter(t, s, dailyRules()...)
			testkit.Admit(t, l, "k", 700)
			testkit.Must(t, server.Stop())
			testkit.Must(t, server.Start())
			eventually(t, func() error {
				_, err := l.Peek(t.Context(), "k")
				return err
			})
			if got := testkit.Used(t, l, "k"); !slices.Equal(got, []int{0, 0}) {
				t.Errorf("the rules have used %v on an empty server, want 0 each", got)
			}
			testkit.Admit(t, l, "k", 1000)
		})
	}
}
