package redisstore_test

import (
	"context"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/keyhash"
	"github.com/weir-go/weir/core/internal/waiters"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/internal/servertest"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

// Callers of several stores get the only place in the order of arrival, with messages and without.
func TestAcquire_order(t *testing.T) {
	all, _, _ := servertest.DocumentedCommands(t, "doc.go")
	// limited returns a client of a new server whose user has the documented permissions, without some and with more.
	limited := func(without []string, more ...string) func(t *testing.T) redis.UniversalClient {
		return func(t *testing.T) redis.UniversalClient {
			server := redistest.NewServer(t)
			permissions := slices.DeleteFunc(slices.Clone(all), func(p string) bool { return slices.Contains(without, p) })
			servertest.SetUser(t, server, slices.Concat(append([]string{"~*"}, more...), permissions)...)
			return server.Client(servertest.AsLimiter)
		}
	}
	for name, open := range map[string]func(t *testing.T) redis.UniversalClient{
		"messages":                   func(t *testing.T) redis.UniversalClient { return redistest.NewServer(t).Client() },
		"the documented user":        limited(nil, "&*"),
		"no channels":                limited(nil),
		"no PUBLISH":                 limited([]string{"+publish"}, "&*"),
		"no SUBSCRIBE":               limited([]string{"+subscribe"}, "&*"),
		"a Cluster":                  func(t *testing.T) redis.UniversalClient { return steadyCluster(t).Client() },
		"a Ring":                     openRing,
		"subscriptions that are cut": openCut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb, prefix := open(t), "test:"
			var limiters []*core.Limiter
			for range 4 {
				s := redisstore.New(rdb, "test", redisstore.Prefix(prefix), redisstore.Timeout(waitLimit))
				limiters = append(limiters, testkit.Limiter(t, s, core.InFlight("jobs", 1)))
			}
			ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
			defer cancel()
			holder, err := limiters[0].Acquire(ctx, "k")
			testkit.Must(t, err)
			var mu sync.Mutex
			var order []int
			var wg sync.WaitGroup
			for i, l := range limiters {
				wg.Go(func() {
					r, err := l.Acquire(ctx, "k")
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
					if err := r.Release(ctx); err != nil {
						t.Error(err)
					}
				})
				eventually(t, func() error { // the next one comes later
					if n := countQueues(ctx, t, rdb); n != i+1 {
						return fmt.Errorf("%d callers wait, want %d", n, i+1)
					}
					return nil
				})
			}
			testkit.Must(t, holder.Release(ctx))
			wg.Wait()
			if !slices.Equal(order, []int{0, 1, 2, 3}) {
				t.Errorf("got the order %v", order)
			}
			if d, err := limiters[0].Peek(ctx, "k"); err != nil || !d.Allowed {
				t.Errorf("at the end: %v, %v", d, err)
			}
		})
	}
}

func openRing(t *testing.T) redis.UniversalClient {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": redistest.NewServer(t).Addr}})
	t.Cleanup(func() { _ = ring.Close() })
	return ring
}

// openCut returns a client of a server that closes subscriptions all the time.
func openCut(t *testing.T) redis.UniversalClient {
	rdb := redistest.NewServer(t).Client()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			rdb.ClientKillByFilter(ctx, "TYPE", "pubsub")
			<-tick.C
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return rdb
}

// Callers who get a place at once need no subscription, and the goroutine of a subscription ends with its client.
func TestAcquire_subscription(t *testing.T) {
	server := redistest.NewServer(t)
	for name, open := range map[string]func() redis.UniversalClient{
		"Client": func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: server.Addr}) },
		"Ring": func() redis.UniversalClient {
			return redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": server.Addr}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			rdb := open()
			l := testkit.Limiter(t, newStore(rdb, redisstore.Prefix("test:")), core.InFlight("jobs", 1))
			channels := func() []string {
				channels, err := server.Client().PubSubChannels(t.Context(), "*wake:*").Result()
				testkit.Must(t, err)
				return channels
			}
			for range 20 {
				r, err := l.Acquire(t.Context(), "k")
				testkit.Must(t, err)
				testkit.Must(t, r.Release(t.Context()))
			}
			if got := channels(); len(got) > 0 {
				t.Errorf("the channels are %v before a caller waits", got)
			}
			r, err := l.Acquire(t.Context(), "k")
			testkit.Must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() {
				_, err := l.Acquire(ctx, "k")
				ended <- err
			}()
			eventually(t, func() error {
				if got := channels(); len(got) != 1 {
					return fmt.Errorf("the channels are %v", got)
				}
				return nil
			})
			cancel()
			<-ended
			testkit.Must(t, r.Release(t.Context()))
			testkit.Must(t, rdb.Close())
			eventually(t, func() error {
				var stacks strings.Builder
				testkit.Must(t, pprof.Lookup("goroutine").WriteTo(&stacks, 2))
				if got := channels(); len(got) > 0 || strings.Contains(stacks.String(), "(*listener).receive") {
					return fmt.Errorf("a listener goes on: %v", got)
				}
				return nil
			})
		})
	}
}

// A caller whose subscription breaks asks again, and has the place that is free.
func TestAcquire_brokenSubscription(t *testing.T) {
	server := redistest.NewServer(t)
	l := testkit.Limiter(t, newStore(server.Client(), redisstore.Prefix("test:")), core.InFlight("jobs", 1))
	r, err := l.Acquire(t.Context(), "k")
	testkit.Must(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := l.Acquire(t.Context(), "k")
		ended <- err
	}()
	operator := server.Client()
	var channels []string
	eventually(t, func() (err error) {
		if channels, err = operator.PubSubChannels(t.Context(), "*wake:*").Result(); len(channels) != 1 {
			return fmt.Errorf("the channels are %v, %w", channels, err)
		}
		return nil
	})
	beside := operator.Subscribe(t.Context(), channels...)
	<-beside.Channel() // a message, which the listener gets, too
	testkit.Must(t, beside.Close())
	if n, err := operator.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Result(); n < 1 || err != nil {
		t.Fatalf("killed %d subscriptions, %v", n, err)
	}
	testkit.Must(t, r.Release(t.Context()))
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Redis publishes one message when a caller is in the state, and one when the places that it needs are free, until it
// asks again, also after a reset.
func TestAcquire_messages(t *testing.T) {
	const process = 12
	rdb := redistest.NewServer(t).Client()
	s := redisstore.New(rdb, "test", redisstore.Prefix("test:"), redisstore.Timeout(waitLimit))
	subscription := rdb.Subscribe(t.Context(), fmt.Sprintf("test:test:wake:%d", process))
	defer subscription.Close()
	_, err := subscription.Receive(t.Context())
	testkit.Must(t, err)
	for _, byCost := range []bool{false, true} {
		rule, err := driver.Definition{Algorithm: driver.InFlight, Name: "places", Events: 4, Hold: time.Minute, ByCost: byCost}.Compile()
		testkit.Must(t, err)
		do := func(op driver.Op, m driver.Receipt) driver.Charge {
			charges := []driver.Charge{{Key: "k", Rule: rule, Op: op, Cost: 1, Receipt: m}}
			testkit.Must(t, storetest.Do(t.Context(), s, charges))
			return charges[0]
		}
		var held []driver.Receipt
		for range 4 {
			held = append(held, do(driver.Spend, driver.Receipt{}).Receipt)
		}
		queue := int64(process*waiters.PerProcess + 7)
		waits := func(w driver.Waiter) driver.Charge {
			charges := []driver.Charge{{Key: "k", Rule: rule, Cost: 1, Waiter: &w}}
			testkit.Must(t, storetest.Do(t.Context(), s, charges))
			return charges[0]
		}
		first := driver.Waiter{Queue: queue, Behind: 0, Next: 1}
		waits(first)
		for _, m := range held[:3] {
			do(driver.Undo, m)
		}
		if c := waits(first); !c.Verdict.Allowed { // the next caller is woken
			t.Errorf("by cost %t: got %+v", byCost, c.Verdict)
		}
		waits(driver.Waiter{Queue: queue})
		do(driver.Spend, driver.Receipt{})
		waits(first)
		do(driver.Reset, driver.Receipt{}) // all places are free
		testkit.Must(t, rdb.Publish(t.Context(), fmt.Sprintf("test:test:wake:%d", process), "end").Err())
		var got []string
		for len(got) == 0 || got[len(got)-1] != "end" {
			m, err := subscription.ReceiveMessage(t.Context())
			testkit.Must(t, err)
			got = append(got, m.Payload)
		}
		id := fmt.Sprint(queue)
		if want := []string{"?" + id, id, id, "?" + id, id, "end"}; !slices.Equal(got, want) {
			t.Errorf("by cost %t: got the messages %v, want %v", byCost, got, want)
		}
	}
}

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
