package stacks_test

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
	"github.com/weir-go/weir/core/memstore"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
	"github.com/weir-go/weir/internal/testkit"
)

const (
	// busy is how long a decision may take on a busy machine. It is shorter than the
	// timeouts of a client.
	busy = 4 * time.Second
	// unhurried is a deadline that a busy machine keeps.
	unhurried = 10 * time.Second
)

// A load makes decisions by many callers, and records how long they took.
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
	tick := time.NewTicker(10 * time.Millisecond)
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

// phase waits until 50 decisions have been made since the last phase, and until is true. It
// checks that none of them failed and that none took longer than most.
func (o *load) phase(t *testing.T, name string, most time.Duration, until func() bool) {
	t.Helper()
	begun := time.Now()
	for {
		o.mu.Lock()
		if len(o.took) >= 50 && until() {
			break
		}
		o.mu.Unlock()
		if time.Since(begun) > time.Minute {
			t.Fatalf("%s: not done after a minute", name)
		}
		time.Sleep(time.Millisecond)
	}
	took, failed := o.took, o.failed
	o.took, o.failed = nil, nil
	o.mu.Unlock()
	if len(failed) > 0 {
		t.Errorf("%s: %d decisions failed, for example: %v", name, len(failed), failed[0])
	}
	slices.Sort(took)
	slowest := took[len(took)-1]
	t.Logf("%s, %v: %d decisions, p99 %v, slowest %v", name, time.Since(begun), len(took), took[len(took)*99/100], slowest)
	if slowest > most {
		t.Errorf("%s: the slowest decision: got %v, expected at most %v", name, slowest, most)
	}
}

// are reports whether all stores are in the state want.
func are(want failover.State, stores ...*failover.Store) func() bool {
	return func() bool {
		return !slices.ContainsFunc(stores, func(s *failover.Store) bool { return s.State() != want })
	}
}

// probed reports whether s has sent three probes since the call of probed.
func probed(s *failover.Store) func() bool {
	before := s.Stats().Probes
	return func() bool { return s.Stats().Probes >= before+3 }
}

// anyKey returns one of a few keys.
func anyKey(i int) string { return fmt.Sprint("key ", i%7) }

// A Redis that is killed or frozen under load fails no decision and delays few,
// and is in use again after it returns.
func TestRedis_Away(t *testing.T) {
	for _, c := range []struct {
		name          string
		away, return_ func(*redistest.Server) error
		opts          []redisstore.Option
	}{
		{"killed, direct", (*redistest.Server).Stop, (*redistest.Server).Start, nil},
		{"killed, unbatched", (*redistest.Server).Stop, (*redistest.Server).Start, []redisstore.Option{redisstore.Unbatched()}},
		{"frozen, direct", (*redistest.Server).Pause, (*redistest.Server).Resume, nil},
		{"frozen, unbatched", (*redistest.Server).Pause, (*redistest.Server).Resume, []redisstore.Option{redisstore.Unbatched()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.NewServer(t)
			var stores []*failover.Store
			var limiters []*core.Limiter
			for range 2 { // processes
				rdb := server.Client(func(o *redis.Options) { o.PoolSize = 10 })
				s := failover.New(redisstore.New(rdb, "test", c.opts...), memstore.New())
				defer s.Close()
				stores = append(stores, s)
				limiters = append(limiters, testkit.Limiter(t, s, wide))
			}
			o := drive(t, anyKey, limiters...)
			o.phase(t, "before", unhurried, are(failover.Primary, stores...))
			testkit.Must(t, c.away(server))
			o.phase(t, "until it is left", busy, are(failover.Backup, stores...))
			o.phase(t, "away", busy, probed(stores[0]))
			testkit.Must(t, c.return_(server))
			o.phase(t, "until it is in use again", unhurried, are(failover.Primary, stores...))
		})
	}
}

// A readOnly is a state in which a Redis server answers reads and refuses writes.
type readOnly struct {
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
	replica = readOnly{"replica", func(t *testing.T, rdb *redis.Client) {
		host, port, err := net.SplitHostPort(redistest.NewServer(t).Addr)
		testkit.Must(t, err)
		testkit.Must(t, rdb.ReplicaOf(context.Background(), host, port).Err())
	}, command("replicaof", "no", "one")}
	outOfMemory  = readOnly{"out of memory", command("config", "set", "maxmemory", "1"), command("config", "set", "maxmemory", "0")}
	noReplicas   = readOnly{"no replicas", command("config", "set", "min-replicas-to-write", "1"), command("config", "set", "min-replicas-to-write", "0")}
	noPermission = readOnly{"no permission", command("acl", "setuser", "default", "-psetex"), command("acl", "setuser", "default", "+psetex")}
)

// A Redis that answers reads and refuses writes causes one outage, which lasts as long as the
// server refuses them.
func TestRedis_WritesRefused(t *testing.T) {
	plain := func(s core.Store) core.Store { return s }
	for _, c := range []struct {
		name string
		way  readOnly
		opts []redisstore.Option
		over func(core.Store) core.Store
	}{
		{"direct", replica, nil, plain},
		{"direct", outOfMemory, nil, plain},
		{"direct", noReplicas, nil, plain},
		{"direct", noPermission, nil, plain},
		{"unbatched, under denycache", replica, []redisstore.Option{redisstore.Unbatched()}, func(s core.Store) core.Store { return denycache.New(s) }},
	} {
		t.Run(c.name+"/"+c.way.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.NewServer(t)
			below := redisstore.New(server.Client(), "test", append(c.opts, redisstore.Timeout(unhurried))...)
			refuseWrites(t, c.way, server, below, c.over, anyKey)
		})
	}
}

// On a Cluster the probe goes to the node that serves the key. Here one node of three
// refuses writes.
func TestRedis_WritesRefusedByClusterNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t)
	below := redisstore.New(cluster.Client(), "test", redisstore.Timeout(unhurried))
	refuseWrites(t, outOfMemory, cluster.Nodes[0], below, func(s core.Store) core.Store { return s }, keysOn(t, cluster.Nodes[0], below))
}

// refuseWrites makes server refuse writes by way for three probes under load. It fails the test
// unless that causes one outage, which ends after the server accepts writes again, and in which no
// decision reaches the Store below.
func refuseWrites(t *testing.T, way readOnly, server *redistest.Server, below *redisstore.Store, over func(core.Store) core.Store, key func(i int) string) {
	t.Helper()
	operator, counted := server.Client(), &storetest.Fake{Store: below}
	s := failover.New(over(counted.WithDeadline(unhurried)), memstore.New(), failover.Deadline(unhurried))
	defer s.Close()
	o := drive(t, key, testkit.Limiter(t, s, wide))
	o.phase(t, "before", unhurried, are(failover.Primary, s))

	way.refuse(t, operator)
	o.phase(t, "until it is left", unhurried, func() bool { return s.State() == failover.Backup && counted.Active() == 0 })
	before := counted.Charges(driver.Spend)
	o.phase(t, "away", busy, probed(s))
	if n := counted.Charges(driver.Spend) - before; n != 0 || s.State() != failover.Backup {
		t.Errorf("while writes are refused: got %d decisions of the primary and the state %v, expected none", n, s.State())
	}

	way.accept(t, operator)
	o.phase(t, "until it is in use again", unhurried, are(failover.Primary, s))
	if n := s.Stats().Outages; n != 1 {
		t.Errorf("outages: got %d, expected 1", n)
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
