package failover_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
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
)

// A refusal is a way in which a Redis server answers reads and refuses writes.
type refusal struct {
	name           string
	refuse, accept func(t *testing.T, rdb *redis.Client)
}

var outOfMemory = refusal{"out of memory", setting("maxmemory", "1"), setting("maxmemory", "0")}

var refusals = []refusal{
	{
		"replica",
		func(t *testing.T, rdb *redis.Client) {
			host, port, err := net.SplitHostPort(redistest.NewServer(t).Addr)
			must(t, err)
			must(t, rdb.ReplicaOf(context.Background(), host, port).Err())
		},
		func(t *testing.T, rdb *redis.Client) { must(t, rdb.ReplicaOf(context.Background(), "no", "one").Err()) },
	},
	outOfMemory,
	{"no replicas", setting("min-replicas-to-write", "1"), setting("min-replicas-to-write", "0")},
	{
		"no permission",
		func(t *testing.T, rdb *redis.Client) {
			must(t, rdb.Do(context.Background(), "acl", "setuser", "default", "-psetex").Err())
		},
		func(t *testing.T, rdb *redis.Client) {
			must(t, rdb.Do(context.Background(), "acl", "setuser", "default", "+psetex").Err())
		},
	},
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func setting(name, value string) func(*testing.T, *redis.Client) {
	return func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		must(t, rdb.ConfigSet(context.Background(), name, value).Err())
	}
}

// A counted store counts the decisions that redisstore is asked for.
type counted struct {
	*redisstore.Store
	takes atomic.Int64
}

func (c *counted) Take(ctx context.Context, charges []driver.Charge) error {
	c.takes.Add(1)
	return c.Store.Take(ctx, charges)
}

// A history records the changes of a Store.
type history struct {
	mu      sync.Mutex
	changes []string
}

func (h *history) add(from, to failover.State, _ error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes = append(h.changes, fmt.Sprintf("%v-%v", from, to))
}

func (h *history) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.changes, " ")
}

// unhurried is a deadline that a busy machine keeps: what is refused is refused at once, and a
// decision that is late would be an outage of its own.
const unhurried = time.Second

const oneOutage = "primary-backup backup-recovering recovering-primary"

// refused runs decisions over primary, of which the Store below counts those that reach
// Redis, while Redis refuses writes for longer than a second. It fails the test unless
// that is one outage that ends within 2 s of the end of the refusals, and in which no
// decision reaches the Store below.
func refused(t *testing.T, primary core.Store, below *counted, key func(i int) string, refuse, accept func()) {
	t.Helper()
	var h history
	s := failover.New(primary, memstore.New(), failover.OnChange(h.add), failover.Deadline(unhurried))
	defer s.Close()
	l := limiter(t, s, core.TokenBucket("wide", core.PerSecond(1_000_000)))
	o := &load{stop: make(chan struct{})}
	for i := range 5 {
		o.callers.Go(func() { o.call(l, key(i)) })
	}
	defer o.end()
	time.Sleep(200 * time.Millisecond) // of load
	o.phase(t)

	refuse()
	left := becomes(t, failover.Backup, s)
	n, _, most := o.phase(t)
	t.Logf("left after %v, %d decisions, slowest %v, %d failures", left, n, most, s.Stats().Failures)
	time.Sleep(200 * time.Millisecond) // of load: calls that were under way have ended
	o.phase(t)
	before := below.takes.Load()
	time.Sleep(time.Second) // of load
	n, p99, most := o.phase(t)
	t.Logf("away for 1 s: %d decisions, p99 %v, slowest %v; %+v", n, p99, most, s.Stats())
	if n := below.takes.Load() - before; n != 0 {
		t.Errorf("%d decisions went to a primary that refuses writes, want 0", n)
	}
	if got := h.String(); got != "primary-backup" {
		t.Errorf("the changes are %q, want one outage that lasts", got)
	}

	begun := time.Now()
	accept()
	becomes(t, failover.Primary, s)
	took := time.Since(begun)
	t.Logf("in use again after %v", took)
	if took > 2*time.Second+busy {
		t.Errorf("in use again after %v, want 2 s", took)
	}
	o.phase(t)
	for h.String() != oneOutage && time.Since(begun) < busy { // changes are told after they happen
		time.Sleep(time.Millisecond)
	}
	if got := s.Stats(); got.Outages != 1 || h.String() != oneOutage {
		t.Errorf("%d outages and the changes %q, want 1 and %q", got.Outages, h.String(), oneOutage)
	}
}

// A Redis that answers reads and refuses writes is left once, and for as long as it
// refuses them.
func TestStore_PrimaryRefusesWrites(t *testing.T) {
	plain := func(s core.Store) core.Store { return s }
	for _, stack := range []struct {
		name     string
		refusals []refusal
		opts     []redisstore.Option
		over     func(core.Store) core.Store
	}{
		{"direct", refusals, nil, plain},
		{"pipelined", refusals[:1], []redisstore.Option{redisstore.Pipelined()}, plain},
		{"under denycache", refusals[:1], nil, func(s core.Store) core.Store { return denycache.New(s) }},
	} {
		for _, way := range stack.refusals {
			t.Run(stack.name+"/"+way.name, func(t *testing.T) {
				t.Parallel()
				server := redistest.NewServer(t)
				operator := server.Client()
				below := &counted{Store: redisstore.New(server.Client(), append(stack.opts, redisstore.Timeout(unhurried))...)}
				refused(t, stack.over(below), below, func(i int) string { return fmt.Sprint("key ", i) },
					func() { way.refuse(t, operator) }, func() { way.accept(t, operator) })
			})
		}
	}
}

// On a Cluster the probe goes to the node that serves the key. Here one node of three
// refuses writes.
func TestStore_PrimaryClusterNodeRefusesWrites(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t)
	operator := cluster.Nodes[0].Client()
	below := &counted{Store: redisstore.New(cluster.Client(), redisstore.Timeout(unhurried))}
	refused(t, below, below, keysOn(t, cluster.Nodes[0], below.Store),
		func() { outOfMemory.refuse(t, operator) }, func() { outOfMemory.accept(t, operator) })
}

// keysOn returns five keys whose states are on the given node.
func keysOn(t *testing.T, node *redistest.Server, s *redisstore.Store) func(i int) string {
	t.Helper()
	rdb := node.Client()
	size := func() int64 {
		n, err := rdb.DBSize(t.Context()).Result()
		must(t, err)
		return n
	}
	l := limiter(t, s, core.TokenBucket("where", core.PerHour(1)))
	var keys []string
	for i := 0; len(keys) < 5; i++ {
		key, before := fmt.Sprint("key ", i), size()
		allow(t, l, key)
		if size() > before {
			keys = append(keys, key)
		}
	}
	return func(i int) string { return keys[i] }
}
