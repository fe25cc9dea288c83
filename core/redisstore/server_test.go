package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
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

// tag returns the hash tag of a key.
func tag(key string) string {
	_, tag, _ := strings.Cut(key, "{")
	tag, _, _ = strings.Cut(tag, "}")
	return tag
}

// resp returns a value as a reply.
func resp(value any) string {
	switch v := value.(type) {
	case int64:
		return integer(v)
	case []any:
		elements := make([]string, len(v))
		for i := range v {
			elements[i] = resp(v[i])
		}
		return array(elements...)
	}
	return fmt.Sprintf("$%d\r\n%v\r\n", len(fmt.Sprint(value)), value)
}

// Scripts have keys of several slots only on servers that have the keys of all slots. Behind any
// other server, each key keeps one state.
func TestServer_anySlots(t *testing.T) {
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

// The options of a client, and the errors of its own commands, are as before New.
func TestNew_keepsOptions(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	before := *rdb.Options()
	l := testkit.Limiter(t, newStore(rdb), dailyRules()...)
	for range 3 {
		testkit.Admit(t, l, "k", 1)
	}
	after := *rdb.Options()
	if after.ContextTimeoutEnabled != before.ContextTimeoutEnabled || after.ReadTimeout != before.ReadTimeout || after.WriteTimeout != before.WriteTimeout {
		t.Errorf("the options are %+v, want %+v", after, before)
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
func TestServer_anySlots_panic(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	hook := panickingHook{new(atomic.Int64)}
	rdb.AddHook(hook)
	l := testkit.Limiter(t, newStore(rdb), largeRules()...)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() { testkit.Admit(t, l, fmt.Sprint("k", i%8), 20) })
	}
	wg.Wait()
	eventually(t, func() error {
		if hook.infos.Load() == 0 {
			return errors.New("INFO was not called")
		}
		return nil
	})
}

// A countingHook counts scripts and connections.
type countingHook struct{ scripts, dials *atomic.Int64 }

func (h countingHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		h.dials.Add(1)
		return next(ctx, network, addr)
	}
}

func (h countingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			h.scripts.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (h countingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// The hooks of a client are called for each script, and all scripts use its connections.
func TestNew_hooks(t *testing.T) {
	t.Parallel()
	const calls = 50
	single, cluster := redistest.Shared(t).Client(), redistest.SharedCluster(t).Client()
	for name, rdb := range map[string]redis.UniversalClient{"single": single, "cluster": cluster} {
		t.Run(name, func(t *testing.T) {
			hook := countingHook{new(atomic.Int64), new(atomic.Int64)}
			if rdb == single {
				single.AddHook(hook)
			} else {
				cluster.OnNewNode(func(node *redis.Client) { node.AddHook(hook) })
			}
			s := newStore(rdb)
			l := testkit.Limiter(t, s, core.TokenBucket("r", core.Per(calls, century)))
			testkit.Admit(t, l, "k", 1)
			loaded := hook.scripts.Load() // with EVAL if the server did not know the script
			for range calls - 1 {
				testkit.Admit(t, l, "k", 1)
			}
			if n := hook.scripts.Load() - loaded; n != calls-1 {
				t.Errorf("the hook saw %d scripts, want %d", n, calls-1)
			}
			if n := hook.dials.Load(); n > 8 {
				t.Errorf("there were %d connections, want at most 8", n)
			}
		})
	}
}
