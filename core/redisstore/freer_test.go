package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
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

// The places of an event whose caller does not learn them, because the reply is lost, are freed long before they lapse,
// also if it is not known how many were taken.
func TestFreer(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	eachLoss(t, func(t *testing.T, closeAfter time.Duration, opts []redisstore.Option) {
		for name, c := range map[string]struct {
			rules  []*driver.Compiled
			costs  []int
			atMost bool
		}{
			"one place": {[]*driver.Compiled{inFlight(t, "lost", 3, time.Hour, 0), inFlight(t, "also", 5, 2*time.Hour, 0)}, []int{1, 1}, false},
			"by cost": {[]*driver.Compiled{
				byCost(t, "lost", 100, time.Hour, 0), byCost(t, "also", 5000, 2*time.Hour, 0), inFlight(t, "one", 9, time.Hour, 0),
			}, []int{20, 4096, 1}, false},
			"at most, all":    {[]*driver.Compiled{byCost(t, "lost", 100, time.Hour, 0)}, []int{40}, true},
			"at most, a part": {[]*driver.Compiled{byCost(t, "lost", 100, time.Hour, 0)}, []int{4000}, true},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				own := prefix()
				f := newFlight(t, server.Client(), c.rules[0])
				healthy := newStore(f.rdb, append(opts, own)...)
				proxy := redistest.NewProxy(t, server.Addr)
				proxy.DropReplies(closeAfter, "evalsha", "eval")
				lossy := newStore(server.Client(func(o *redis.Options) { o.Addr, o.ReadTimeout = proxy.Addr, replyTimeout }), append(opts, own)...)
				f.Store = healthy
				spend := func(s *redisstore.Store) ([]driver.Charge, error) {
					var charges []driver.Charge
					for i, rule := range c.rules {
						charges = append(charges, driver.Charge{Key: "k", Rule: rule, Cost: c.costs[i], AtMost: c.atMost})
					}
					return charges, s.Take(t.Context(), charges)
				}
				of := func(rule *driver.Compiled) { f.rule, f.key = rule, healthy.StateKey("k", rule) }
				charges, err := spend(healthy) // the server knows the scripts then
				testkit.Must(t, err)
				for _, c := range charges {
					of(c.Rule)
					f.do(driver.Undo, c.Receipt)
				}
				of(c.rules[0])
				held := f.take()
				for range 2 {
					eventually(t, func() error { // on a busy machine, a call may end before it was sent
						if _, err := spend(lossy); !errors.Is(err, core.ErrUnavailable) {
							t.Fatalf("got error %v, expected core.ErrUnavailable", err)
						}
						if len(f.places()) < 2 {
							return errors.New("no place was taken")
						}
						return nil
					})
				}
				proxy.Pass()
				for i, rule := range c.rules {
					of(rule)
					eventually(t, func() error {
						if n, want := len(f.places()), []int{1, 0, 0}[i]; n != want {
							return fmt.Errorf("%d events have places of %v, want %d", n, rule, want)
						}
						return nil
					})
				}
				of(c.rules[0])
				if v := f.do(driver.Renew, held).Verdict; !v.Found {
					t.Errorf("the renewal of the place of another caller: got %+v, expected found", v)
				}
			})
		}
	})
}

// An undo that Redis executes before the Take is repeated.
func TestFreer_UndoBeforeTake(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			admin, rdb := server.Client(), server.Client(func(o *redis.Options) { o.ReadTimeout = replyTimeout })
			f := newFlight(t, admin, inFlight(t, "late", 50, time.Hour, 0))
			patient := newStore(admin, append(mode.opts, redisstore.Timeout(waitLimit))...)
			f.Store, f.key = patient, patient.StateKey("k", f.rule)
			f.do(driver.Undo, f.do(driver.Spend, driver.Receipt{}).Receipt) // loads the scripts
			f.Store = newStore(rdb, append(mode.opts, redisstore.Timeout(short))...)
			opened := rdb.PoolStats().Misses
			testkit.Must(t, server.Pause())
			for range 10 {
				if c, err := f.try(driver.Spend, driver.Receipt{}); err == nil {
					t.Errorf("a paused server: got %+v, expected an error", c.Verdict)
				}
			}
			eventually(t, func() error {
				if n := rdb.PoolStats().Misses - opened; n < 5 {
					return fmt.Errorf("%d connections were opened in place of those that had no reply, want 5", n)
				}
				return nil
			})
			testkit.Must(t, server.Resume())
			eventually(t, func() error {
				if n := len(f.places()); n != 0 {
					return fmt.Errorf("%d places are taken, want 0", n)
				}
				return nil
			})
		})
	}
}

// A failingOnce is a hook that makes one script fail with err, which proves that the node has not executed it, and then
// calls after.
type failingOnce struct {
	armed atomic.Bool
	err   error
	after func()
}

func (h *failingOnce) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *failingOnce) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") && h.armed.CompareAndSwap(true, false) {
			cmd.SetErr(h.err)
			h.after()
			return h.err
		}
		return next(ctx, cmd)
	}
}

func (h *failingOnce) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

type redisError string

func (e redisError) Error() string { return string(e) }
func (redisError) RedisError()     {}

// A decision that another node makes after a redirection keeps its place if its caller learns it, and loses it
// otherwise.
func TestFreer_Redirected(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	for _, c := range []struct {
		name  string
		err   error
		loses bool
	}{
		{"TRYAGAIN", redisError("TRYAGAIN Multiple keys request during rehashing of slot"), false},
		{"TRYAGAIN, the reply is lost", redisError("TRYAGAIN Multiple keys request during rehashing of slot"), true},
		{"the node has left", redis.ErrClosed, false},
		{"the node has left, the reply is lost", redis.ErrClosed, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			proxies := make(map[string]*redistest.Proxy)
			for _, node := range cluster.Nodes {
				proxies[node.Addr] = redistest.NewProxy(t, node.Addr)
			}
			hook := &failingOnce{err: c.err, after: func() {
				for _, p := range proxies {
					if c.loses {
						p.DropReplies(0, "evalsha", "eval")
					}
				}
			}}
			rdb := cluster.Client(func(o *redis.ClusterOptions) {
				if o.Dialer = through(proxies); c.loses {
					o.ReadTimeout = replyTimeout
				}
				o.NewClient = func(opt *redis.Options) *redis.Client {
					node := redis.NewClient(opt)
					node.AddHook(hook)
					return node
				}
			})
			f := newFlight(t, cluster.Client(), inFlight(t, "redirected", 9, time.Hour, 0))
			own := prefix()
			s := newStore(rdb, own)
			f.Store, f.key = newStore(f.rdb, own), s.StateKey("k", f.rule)
			for range 3 {
				f.take()
			}
			f.Store = s
			var taken driver.Charge
			var err error
			eventually(t, func() error { // on a busy machine, a call may end before it was sent
				hook.armed.Store(true)
				if taken, err = f.try(driver.Spend, driver.Receipt{}); hook.armed.Load() {
					return fmt.Errorf("no script was sent: %w", err)
				}
				return nil
			})
			if (err != nil) != c.loses {
				t.Fatalf("got error %v, expected one: %t", err, c.loses)
			}
			for _, p := range proxies {
				p.Pass()
			}
			if c.loses {
				eventually(t, func() error {
					if n := len(f.places()); n != 3 {
						return fmt.Errorf("%d places are taken, want 3", n)
					}
					return nil
				})
				return
			}
			undone := s.Stats().Requests
			for range 40 { // an undo would come within this time
				if v := f.do(driver.Renew, taken.Receipt).Verdict; !v.Found {
					t.Fatalf("the place of the caller was freed")
				}
				time.Sleep(20 * time.Millisecond)
			}
			if n := s.Stats().Requests - undone; n != 40 {
				t.Errorf("%d requests were sent, want 40 renewals", n)
			}
		})
	}
}

// A caller whose reply comes late or is lost leaves nothing behind: neither a place nor a queue that closes the key for
// other processes. The key expires after an hour, so only this process removes places and queues.
func TestAcquire_lateReply(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	admin := server.Client()
	for name, fault := range map[string]func(p *redistest.Proxy){
		"late":   func(p *redistest.Proxy) { p.Delay(3 * short) },
		"lost":   func(p *redistest.Proxy) { p.DropReplies(0, "evalsha", "eval") },
		"closed": func(p *redistest.Proxy) { p.DropReplies(time.Millisecond, "evalsha", "eval") },
	} {
		for _, mode := range modes {
			for _, rule := range []core.Rule{core.InFlight("one place each", 2).Hold(time.Hour), core.InFlight("by cost", 2).ByCost().Hold(time.Hour)} {
				t.Run(name+"/"+mode.name+"/"+rule.Name(), func(t *testing.T) {
					t.Parallel()
					own := prefix()
					l := testkit.Limiter(t, newStore(admin, own), rule)
					held := testkit.Reserve(t, l, "k", 1) // the script is known, too
					proxy := redistest.NewProxy(t, server.Addr)
					rdb := server.Client(func(o *redis.Options) { o.Addr, o.ReadTimeout = proxy.Addr, replyTimeout })
					slow := testkit.Limiter(t, newStore(rdb, append(mode.opts, own, redisstore.Timeout(short))...), rule)
					key := newStore(admin, own).StateKey("k", testkit.Compiled(rule))
					for _, admitted := range []bool{true, false} {
						if !admitted {
							defer runtime.KeepAlive(testkit.Reserve(t, l, "k", 1)) // places of garbage are free
						}
						want, err := admin.ZCard(t.Context(), key).Result()
						testkit.Must(t, err)
						fault(proxy)
						for range 3 {
							if r, err := slow.Acquire(t.Context(), "k"); !errors.Is(err, core.ErrUnavailable) {
								t.Fatalf("got %v, %v, want ErrUnavailable", r, err)
							}
						}
						proxy.Pass()
						eventually(t, func() error {
							if n, err := admin.ZCard(t.Context(), key).Result(); err != nil || n != want {
								return fmt.Errorf("admitted %t: the state has %d places and queues, %v, want %d places", admitted, n, err, want)
							}
							return nil
						})
					}
					testkit.Must(t, held.Release(t.Context()))
					eventually(t, func() error { // Redis may have executed an ask after its undo
						if n := testkit.Left(t, l, "k"); n != 1 {
							return fmt.Errorf("%d places are free, want 1", n)
						}
						return nil
					})
				})
			}
		}
	}
}

// countQueues returns the number of queues in the only key of places.
func countQueues(ctx context.Context, t *testing.T, rdb redis.UniversalClient) (n int) {
	t.Helper()
	count := func(ctx context.Context, rdb *redis.Client) error {
		keys := rdb.Scan(ctx, 0, "*:jobs", 1000).Iterator()
		for keys.Next(ctx) {
			members, err := rdb.ZRange(ctx, keys.Val(), 0, -1).Result()
			if err != nil {
				return err
			}
			for _, m := range members {
				if strings.Count(m, ":") == 3 {
					n++
				}
			}
		}
		return keys.Err()
	}
	var err error
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		var mu sync.Mutex
		err = rdb.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			return count(ctx, node)
		})
	case *redis.Ring:
		err = rdb.ForEachShard(ctx, count)
	case *redis.Client:
		if rdb.Options().Username != "" { // may not SCAN
			rdb = redis.NewClient(&redis.Options{Addr: rdb.Options().Addr})
			defer rdb.Close()
		}
		err = count(ctx, rdb)
	}
	testkit.Must(t, err)
	return n
}
