package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/internal/servertest"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/internal/testkit"
)

// A proxy answers the commands of one client from several servers.
type proxy struct {
	servers []*redis.Client
	seed    maphash.Seed
	tested  atomic.Bool  // the Store has tested whether scripts may have keys of several slots
	merged  atomic.Int64 // EVALSHAs with keys of several slots
	strict  int64        // such scripts are rejected when merged is greater; none if negative
}

// newProxy returns a proxy that sends a command to the server of its first key, and a client of it.
func newProxy(t *testing.T, servers int, strict int64) (*proxy, *redis.Client) {
	p := &proxy{seed: maphash.MakeSeed(), strict: strict}
	for range servers {
		p.servers = append(p.servers, redistest.NewServer(t).Client())
	}
	rdb := redis.NewClient(&redis.Options{Dialer: servertest.Dialer(p.reply)})
	t.Cleanup(func() { _ = rdb.Close() })
	return p, rdb
}

// reply returns the reply of a server to a command, in RESP.
func (p *proxy) reply(args []string) string {
	key := args[1]
	if strings.HasPrefix(args[0], "eval") {
		n, _ := strconv.Atoi(args[2])
		tags := make(map[string]bool)
		for _, k := range args[3 : 3+n] {
			tags[tag(k)] = true
		}
		key = args[3]
		if len(tags) > 1 && args[0] == "evalsha" {
			p.merged.Add(1)
		}
		if len(tags) > 1 && args[0] == "eval" {
			p.tested.Store(true)
		}
		if len(tags) > 1 && p.strict >= 0 && p.merged.Load() >= p.strict {
			return "-CROSSSLOT Keys in request don't hash to the same slot\r\n"
		}
	}
	words := make([]any, len(args))
	for i, a := range args {
		words[i] = a
	}
	server := p.servers[maphash.String(p.seed, tag(key))%uint64(len(p.servers))]
	value, err := server.Do(context.Background(), words...).Result()
	if err != nil {
		return "-" + err.Error() + "\r\n"
	}
	return resp(value)
}

// Scripts have keys of several slots only on servers that have the keys of all slots. Behind any
// other server, each key keeps one state.
func TestStore_Take_anySlots(t *testing.T) {
	t.Parallel()
	const callers, keys, calls, limit = 64, 8, 20, 100
	for _, c := range []struct {
		name    string
		servers int
		strict  int64
		merged  bool // there are scripts with keys of several slots
	}{
		{"one server", 1, -1, true},
		{"two servers", 2, -1, false},
		{"strict", 1, 0, false},
		{"strict later", 1, 4, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, rdb := newProxy(t, c.servers, c.strict)
			s := newStore(rdb)
			l := testkit.Limiter(t, s, core.TokenBucket("r", core.Per(limit, century)))
			stop := underLoad(t, 16, func() { testkit.Used(t, l, "peek") })
			eventually(t, func() error {
				if !p.tested.Load() {
					return errors.New("the server was not tested")
				}
				return nil
			})
			stop()
			var wg sync.WaitGroup
			admitted := make([][keys]int, callers)
			for i := range callers {
				wg.Go(func() {
					for j := range calls {
						k := (i + j) % keys
						d, err := l.Allow(t.Context(), fmt.Sprint("k", k))
						if err != nil {
							t.Error(err)
						}
						if d.Allowed {
							admitted[i][k]++
						}
					}
				})
			}
			wg.Wait()
			for k := range keys {
				sum := 0
				for i := range callers {
					sum += admitted[i][k]
				}
				if sum != limit {
					t.Errorf("key %d: %d events were admitted, want %d", k, sum, limit)
				}
			}
			if n := p.merged.Load(); (n > 0) != c.merged {
				t.Errorf("%d scripts had keys of several slots, want some: %t", n, c.merged)
			}
			if stats := s.Stats(); stats.RoundTrips > stats.Requests/2 {
				t.Errorf("%d requests took %d round trips, want at most half as many", stats.Requests, stats.RoundTrips)
			}
		})
	}
}

// A panickingHook panics when the Store tests the server, and when it reads the configuration.
type panickingHook struct{ infos *atomic.Int64 }

func (panickingHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h panickingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "info" {
			h.infos.Add(1)
			panic("the configuration")
		}
		return next(ctx, cmd)
	}
}

func (panickingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "psetex" {
			panic("the test of the server")
		}
		return next(ctx, cmds)
	}
}

// A hook that panics in the background does not end the process, or fail decisions.
func TestStore_Take_anySlotsPanic(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	hook := panickingHook{new(atomic.Int64)}
	rdb.AddHook(hook)
	l := testkit.Limiter(t, newStore(rdb), largeRules()...)
	testkit.Concurrently(64, func(i int) { testkit.Admit(t, l, fmt.Sprint("k", i%8), 20) })
	eventually(t, func() error {
		if hook.infos.Load() == 0 {
			return errors.New("INFO was not called")
		}
		return nil
	})
}

// A plain client may be connected to a node of a Cluster, which rejects scripts with keys of several slots,
// or to a proxy, which sends them to the server of the first key. Decisions, refunds, places and probes of
// several keys keep one state for each key.
func TestStore_Take_severalKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		servers int
		strict  int64
	}{
		{"one server", 1, -1},
		{"a node of a Cluster", 1, 0},
		{"a node of a Cluster later", 1, 3},
		{"a proxy for two servers", 2, -1},
	} {
		for _, mode := range modes {
			t.Run(c.name+"/"+mode.name, func(t *testing.T) {
				t.Parallel()
				_, rdb := newProxy(t, c.servers, c.strict)
				s := newStore(rdb, mode.opts...)
				address := testkit.Limiter(t, s, core.SlidingLog("address", core.PerHour(100)))
				user := testkit.Limiter(t, s, core.TokenBucket("user", core.Per(3, century)))
				queue := testkit.Limiter(t, s, core.LeakyBucket("queue", core.Per(3, century)))
				places := testkit.Limiter(t, s, core.InFlight("places", 3))
				all := func(i int) []core.Ask {
					return []core.Ask{{Limiter: address, Key: fmt.Sprint("address", i)}, {Limiter: user, Key: "user"}, {Limiter: queue, Key: "queue"},
						{Limiter: places, Key: fmt.Sprint("place", i%2)}}
				}
				admitted := 0
				var last *core.Reservation
				for i := range 20 {
					r, err := core.ReserveTogether(t.Context(), all(i)...)
					testkit.Must(t, err)
					if r.Decision().Allowed {
						admitted, last = admitted+1, r
					}
				}
				if admitted != 3 {
					t.Errorf("admitted %d of 20 events of one user, want 3", admitted)
				}
				testkit.Must(t, last.Refund(t.Context()))
				used := [4]int{testkit.Used(t, address, "address2")[0], testkit.Used(t, user, "user")[0], testkit.Used(t, places, "place0")[0], testkit.Used(t, address, "address9")[0]}
				if used != [4]int{0, 2, 1, 0} {
					t.Errorf("after a refund of the third event, and denials, %v are used, want 0, 2, 1 and 0", used)
				}
				testkit.Must(t, s.Probe(t.Context(), []driver.Charge{
					{Key: "a", Rule: testkit.Compiled(core.SlidingLog("address", core.PerHour(100))), Op: driver.Peek, Cost: 1},
					{Key: "b", Rule: testkit.Compiled(core.TokenBucket("user", core.PerHour(100))), Op: driver.Peek, Cost: 1},
				}))
			})
		}
	}
}

// On a client that is neither a *redis.Client nor a *redis.ClusterClient, a joint decision is one
// call for each key.
func TestStore_ring(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	rdb := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": server.Addr}})
	t.Cleanup(func() { _ = rdb.Close() })
	s := newStore(rdb)
	l := testkit.Limiter(t, s, dailyRules()...)
	if d, err := core.AllowTogether(context.Background(), core.Ask{Limiter: l, Key: "a", Cost: 400}, core.Ask{Limiter: l, Key: "b", Cost: 1000}); err != nil || !d.Allowed {
		t.Fatalf("the joint decision is %+v, %v, want it admitted", d, err)
	}
	d, err := core.AllowTogether(context.Background(), core.Ask{Limiter: l, Key: "a", Cost: 1}, core.Ask{Limiter: l, Key: "b", Cost: 1})
	if err != nil || d.Allowed {
		t.Errorf("the joint decision is %+v, %v, want a denial", d, err)
	}
	if got := testkit.Used(t, l, "a"); !slices.Equal(got, []int{400, 400}) {
		t.Errorf("the rules of a have used %v, want 400 each", got)
	}
	if _, err := core.AllowTogether(context.Background(), core.Ask{Limiter: l, Key: "a", Cost: -1}); !errors.Is(err, core.ErrNegativeCost) {
		t.Errorf("the error of a negative cost is %v, want core.ErrNegativeCost", err)
	}
}
