package redistest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestSharedCluster(t *testing.T) {
	t.Parallel()
	c := SharedCluster(t)
	if again := SharedCluster(t); again.Nodes[0].Addr != c.Nodes[0].Addr {
		t.Errorf("second cluster at %v, first at %v", again.Addrs(), c.Addrs())
	}
	rdb := c.Client()
	for i, node := range c.Nodes {
		key := c.KeyOn(node, Prefix(t))
		if err := rdb.Set(t.Context(), key, i, time.Minute).Err(); err != nil {
			t.Fatalf("SET %s: %v", key, err)
		}
		// Without a redirection only the owner answers.
		if got, err := node.Client().Get(t.Context(), key).Int(); err != nil || got != i {
			t.Errorf("GET %s from node %d: %d, %v", key, i, got, err)
		}
	}
	if v := judge(t, func(t testing.TB) { SharedCluster(t).Nodes[0].Stop() }); v.failed == "" {
		t.Error("Stop of a shared node is not refused")
	}
	if v := judge(t, func(t testing.TB) { c := SharedCluster(t); c.AddReplica(c.Nodes[0]) }); v.failed == "" {
		t.Error("AddReplica to the shared cluster is not refused")
	}
}

func TestClusterArguments(t *testing.T) {
	t.Parallel()
	c := Cluster(t, "--cluster-require-full-coverage", "yes")
	for i, node := range c.Nodes {
		for name, want := range map[string]string{
			"cluster-require-full-coverage": "yes", "cluster-node-timeout": "1000", "appendonly": "no",
		} {
			if got := config(t, node, name); got != want {
				t.Errorf("%s of node %d is %q, want %q", name, i, got, want)
			}
		}
	}
	if v := judge(t, func(tb testing.TB) {
		c.t = tb
		c.KeyOn(c.Nodes[0], "{"+c.KeyOn(c.Nodes[1], "tag")+"}")
	}); v.failed == "" {
		t.Error("a tag that belongs to another node has keys on this one")
	}
}

func TestClusterOutage(t *testing.T) {
	t.Parallel()
	c := Cluster(t)
	// By itself a client learns of a promotion only when another node redirects
	// it or the interval has passed, a minute by default: nobody redirects those
	// who call a dead node.
	rdb := c.Client(func(o *redis.ClusterOptions) { o.ClusterStateReloadInterval = 100 * time.Millisecond })
	moved, lost, kept := c.KeyOn(c.Nodes[0], "moved"), c.KeyOn(c.Nodes[1], "lost"), c.KeyOn(c.Nodes[2], "kept")
	replica := c.AddReplica(c.Nodes[0])

	c.Nodes[0].Stop()
	set := func(key string) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return rdb.Set(ctx, key, 1, 0).Err()
	}
	eventually(t, startTimeout, func() error { return set(moved) })
	if got := c.KeyOn(replica, "moved"); got != moved {
		t.Errorf("after the promotion the replica has the slot of %q, want that of %q", got, moved)
	}

	c.Nodes[1].Stop()
	eventually(t, startTimeout, func() error { return c.Nodes[2].inst.ask(callsDead(c.Nodes[1])) })
	if err := set(kept); err != nil {
		t.Errorf("a slot that is still covered is not served: %v", err)
	}
	if err := set(lost); err == nil {
		t.Error("a slot is served whose only node is dead")
	}
}

// callsDead is nil once the node that is asked has given the other one up.
func callsDead(other *Server) func(context.Context, *redis.Client) error {
	return func(ctx context.Context, rdb *redis.Client) error {
		nodes, err := rdb.ClusterNodes(ctx).Result()
		if err != nil {
			return err
		}
		for line := range strings.Lines(nodes) {
			// The flags are the third field; "fail?" is only a suspicion.
			if f := strings.Fields(line); strings.HasPrefix(f[1], other.Addr+"@") && strings.HasSuffix(f[2], "fail") {
				return nil
			}
		}
		return fmt.Errorf("%s is not given up:\n%s", other.Addr, nodes)
	}
}
