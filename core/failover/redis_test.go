package failover_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/internal/redistest"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/storetest"
)

const (
	// busy is how much slower than promised a busy machine may be.
	busy = 4 * time.Second
	// unhurried is a deadline that a busy machine keeps.
	unhurried = 10 * time.Second
)

// A load is decisions by many callers, and how long they took.
type load struct {
	mu      sync.Mutex
	took    []time.Duration
	failed  []error
	stop    chan struct{}
	callers sync.WaitGroup
}

// drive asks from five goroutines for each limiter until the test ends.
func drive(t *testing.T, key func(i int) string, limiters ...*core.Limiter) *load {
	o := &load{stop: make(chan struct{})}
	for i := range 5 * len(limiters) {
		o.callers.Go(func() { o.call(limiters[i%len(limiters)], key(i)) })
	}
	t.Cleanup(func() {
		close(o.stop)
		o.callers.Wait()
	})
	return o
}

func (o *load) call(l *core.Limiter, key string) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		begun := time.Now()
		d, err := l.Allow(context.Background(), key)
		took := time.Since(begun)
		if err == nil && !d.Allowed {
			err = fmt.Errorf("denied: %+v", d)
		}
		o.mu.Lock()
		o.took = append(o.took, took)
		if err != nil {
			o.failed = append(o.failed, err)
		}
		o.mu.Unlock()
		select {
		case <-o.stop:
			return
		case <-tick.C:
		}
	}
}

// phase logs how long the decisions since the last phase took, and checks that none failed
// and that none took longer than most.
func (o *load) phase(t *testing.T, name string, most time.Duration) {
	t.Helper()
	o.mu.Lock()
	took, failed := o.took, o.failed
	o.took, o.failed = nil, nil
	o.mu.Unlock()
	if len(failed) > 0 {
		t.Errorf("%s: %d decisions failed, for example: %v", name, len(failed), failed[0])
	}
	if len(took) == 0 {
		t.Fatalf("%s: got no decision", name)
	}
	slices.Sort(took)
	slowest := took[len(took)-1]
	t.Logf("%s: %d decisions, p99 %v, slowest %v", name, len(took), took[len(took)*99/100], slowest)
	if slowest > most {
		t.Errorf("%s: the slowest decision: got %v, expected at most %v", name, slowest, most)
	}
}

// becomes waits until all stores are in the state want, and returns how long that took.
func becomes(t *testing.T, want failover.State, stores ...*failover.Store) time.Duration {
	t.Helper()
	begun := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for slices.ContainsFunc(stores, func(s *failover.Store) bool { return s.State() != want }) {
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("the state after 30 s: got %v, expected %v; %+v", stores[0].State(), want, stores[0].Stats())
		}
		<-tick.C
	}
	return time.Since(begun)
}

// anyKey returns one of a few keys.
func anyKey(i int) string { return fmt.Sprint("key ", i%7) }

// A Redis that is killed or frozen under load fails no decision and holds up few,
// and is in use again soon after it returns.
func TestRedis_Away(t *testing.T) {
	for _, c := range []struct {
		name          string
		away, return_ func(*redistest.Server)
		opts          []redisstore.Option
	}{
		{"killed, direct", (*redistest.Server).Stop, (*redistest.Server).Start, nil},
		{"killed, pipelined", (*redistest.Server).Stop, (*redistest.Server).Start, []redisstore.Option{redisstore.Pipelined()}},
		{"frozen, direct", (*redistest.Server).Pause, (*redistest.Server).Resume, nil},
		{"frozen, pipelined", (*redistest.Server).Pause, (*redistest.Server).Resume, []redisstore.Option{redisstore.Pipelined()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Single(t)
			var stores []*failover.Store
			var limiters []*core.Limiter
			for range 3 { // processes
				rdb := server.Client(func(o *redis.Options) { o.PoolSize = 10 })
				s := failover.New(redisstore.New(rdb, c.opts...), memstore.New())
				defer s.Close()
				stores = append(stores, s)
				limiters = append(limiters, testkit.Limiter(t, s, wide))
			}
			o := drive(t, anyKey, limiters...)
			time.Sleep(100 * time.Millisecond) // of load, not to wait for anything
			o.phase(t, "before", unhurried)
			c.away(server)
			took := becomes(t, failover.Backup, stores...)
			o.phase(t, fmt.Sprintf("until it was left, after %v", took), failover.DefaultDeadline+busy)
			time.Sleep(300 * time.Millisecond) // of load
			o.phase(t, "away", busy)
			begun := time.Now()
			c.return_(server)
			becomes(t, failover.Primary, stores...)
			took = time.Since(begun)
			o.phase(t, fmt.Sprintf("until it was in use again, after %v", took), unhurried)
			if took > 2*time.Second+busy {
				t.Errorf("until it was in use again: got %v, expected 2 s", took)
			}
		})
	}
}

// A refusal is a way in which a Redis server answers reads and refuses writes.
type refusal struct {
	name           string
	refuse, accept func(t *testing.T, rdb *redis.Client)
}

// command returns a function that sends a command.
func command(args ...any) func(*testing.T, *redis.Client) {
	return func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		testkit.Must(t, rdb.Do(context.Background(), args...).Err())
	}
}

var (
	replica = refusal{"replica", func(t *testing.T, rdb *redis.Client) {
		host, port, err := net.SplitHostPort(redistest.Single(t).Addr)
		testkit.Must(t, err)
		testkit.Must(t, rdb.ReplicaOf(context.Background(), host, port).Err())
	}, command("replicaof", "no", "one")}
	outOfMemory  = refusal{"out of memory", command("config", "set", "maxmemory", "1"), command("config", "set", "maxmemory", "0")}
	noReplicas   = refusal{"no replicas", command("config", "set", "min-replicas-to-write", "1"), command("config", "set", "min-replicas-to-write", "0")}
	noPermission = refusal{"no permission", command("acl", "setuser", "default", "-psetex"), command("acl", "setuser", "default", "+psetex")}
)

// A Redis that answers reads and refuses writes is left once, and for as long as it
// refuses them.
func TestRedis_WritesRefused(t *testing.T) {
	plain := func(s core.Store) core.Store { return s }
	for _, c := range []struct {
		name string
		way  refusal
		opts []redisstore.Option
		over func(core.Store) core.Store
	}{
		{"direct", replica, nil, plain},
		{"direct", outOfMemory, nil, plain},
		{"direct", noReplicas, nil, plain},
		{"direct", noPermission, nil, plain},
		{"pipelined, under denycache", replica, []redisstore.Option{redisstore.Pipelined()}, func(s core.Store) core.Store { return denycache.New(s) }},
	} {
		t.Run(c.name+"/"+c.way.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Single(t)
			below := redisstore.New(server.Client(), append(c.opts, redisstore.Timeout(unhurried))...)
			refuseWrites(t, c.way, server, below, c.over, anyKey)
		})
	}
}

// On a Cluster the probe goes to the node that serves the key. Here one node of three
// refuses writes.
func TestRedis_WritesRefusedByClusterNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	below := redisstore.New(cluster.Client(), redisstore.Timeout(unhurried))
	refuseWrites(t, outOfMemory, cluster.Nodes[0], below, func(s core.Store) core.Store { return s }, keysOn(t, cluster.Nodes[0], below))
}

// refuseWrites has server refuse writes by way for half a second under load. It fails the test
// unless that is one outage that ends within 2 s of the end of the refusals, and in which no
// decision reaches the Store below.
func refuseWrites(t *testing.T, way refusal, server *redistest.Server, below *redisstore.Store, over func(core.Store) core.Store, key func(i int) string) {
	t.Helper()
	operator, counted := server.Client(), &storetest.Fake{Store: below}
	s := failover.New(over(counted.WithDeadline(unhurried)), memstore.New(), failover.Deadline(unhurried))
	defer s.Close()
	o := drive(t, key, testkit.Limiter(t, s, wide))
	time.Sleep(100 * time.Millisecond) // of load
	o.phase(t, "before", unhurried)

	way.refuse(t, operator)
	took := becomes(t, failover.Backup, s)
	for counted.Active() > 0 { // calls that were under way
		time.Sleep(time.Millisecond)
	}
	o.phase(t, fmt.Sprintf("until it was left, after %v", took), unhurried)
	before := counted.Charges(driver.Spend)
	time.Sleep(500 * time.Millisecond) // of load
	o.phase(t, "away", busy)
	if n := counted.Charges(driver.Spend) - before; n != 0 || s.State() != failover.Backup {
		t.Errorf("while writes are refused: got %d decisions of the primary and the state %v, expected none", n, s.State())
	}

	begun := time.Now()
	way.accept(t, operator)
	becomes(t, failover.Primary, s)
	took = time.Since(begun)
	o.phase(t, fmt.Sprintf("until it was in use again, after %v", took), unhurried)
	if got := s.Stats().Outages; got != 1 || took > 2*time.Second+busy {
		t.Errorf("until it was in use again: got %v and %d outages, expected 2 s and 1", took, got)
	}
}

// keysOn returns five keys whose states are on the given node.
func keysOn(t *testing.T, node *redistest.Server, s *redisstore.Store) func(i int) string {
	t.Helper()
	rdb := node.Client()
	size := func() int64 {
		n, err := rdb.DBSize(t.Context()).Result()
		testkit.Must(t, err)
		return n
	}
	l := testkit.Limiter(t, s, core.TokenBucket("where", core.PerHour(1)))
	var keys []string
	for i := 0; len(keys) < 5; i++ {
		key, before := fmt.Sprint("key ", i), size()
		testkit.Allow(t, l, key)
		if size() > before {
			keys = append(keys, key)
		}
	}
	return func(i int) string { return keys[i] }
}
