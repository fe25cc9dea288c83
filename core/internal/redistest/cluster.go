package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

const (
	masters = 3
	slots   = 16384
)

// A ClusterSet is a Redis Cluster.
type ClusterSet struct {
	// Nodes are the three masters, in the order of their slots: the first has
	// the lowest third. A failover or a resharding leaves the list as it is.
	Nodes []*Server

	t        testing.TB
	path     string
	dir      string // where replicas are put; empty for a shared one
	args     []string
	replicas int
}

// Cluster forms a Redis Cluster of three masters for this test alone and returns
// when every node serves all 16384 slots. It calls a silent node dead after a
// second and goes on serving the slots that are left; args are more settings for
// every node, as on the command line, and win over these two
// ("--cluster-require-full-coverage", "yes"). It ends with the test.
func Cluster(t testing.TB, args ...string) *ClusterSet {
	t.Helper()
	path := binary(t)
	dir := t.TempDir()
	nodes, err := launchCluster(path, dir, args)
	if err != nil {
		t.Fatalf("redistest: starting a cluster: %v", err)
	}
	c := newClusterSet(t, nodes, false)
	c.path, c.dir, c.args = path, dir, args
	return c
}

func newClusterSet(t testing.TB, nodes []*instance, shared bool) *ClusterSet {
	c := &ClusterSet{t: t}
	for i, inst := range nodes {
		if shared {
			c.Nodes = append(c.Nodes, &Server{Addr: inst.addr(), t: t, inst: inst, shared: true})
		} else {
			c.Nodes = append(c.Nodes, own(t, fmt.Sprintf("cluster node %d", i), inst))
		}
	}
	return c
}

// Addrs are the addresses of Nodes.
func (c *ClusterSet) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, s := range c.Nodes {
		addrs[i] = s.Addr
	}
	return addrs
}

// Client returns a new Cluster client with go-redis's default options, which
// each edit may change. It is closed when the test ends.
func (c *ClusterSet) Client(edit ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	opts := &redis.ClusterOptions{Addrs: c.Addrs()}
	for _, f := range edit {
		f(opts)
	}
	rdb := redis.NewClusterClient(opts)
	c.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// KeyOn returns a key that begins with prefix and lives on the given node: one
// for which the node itself does not redirect. A prefix with a hash tag may have
// none.
func (c *ClusterSet) KeyOn(node *Server, prefix string) string {
	c.t.Helper()
	const tries = 1000
	key := ""
	err := node.inst.ask(func(ctx context.Context, rdb *redis.Client) error {
		for n := range tries {
			candidate := prefix + strconv.Itoa(n)
			err := rdb.Exists(ctx, candidate).Err()
			if err == nil {
				key = candidate
				return nil
			}
			if _, moved := redis.IsMovedError(err); !moved {
				return err
			}
		}
		return fmt.Errorf("none of %d keys is there", tries)
	})
	if err != nil {
		c.t.Fatalf("redistest: KeyOn(%s, %q): %v", node.Addr, prefix, err)
	}
	return key
}

// AddReplica starts one more node as a replica of the given master and returns
// when it is in sync and every node knows it, so that it can be promoted.
func (c *ClusterSet) AddReplica(master *Server) *Server {
	c.t.Helper()
	master.refuseShared("AddReplica")
	c.replicas++
	dir := filepath.Join(c.dir, fmt.Sprintf("replica%d", c.replicas))
	if err := os.Mkdir(dir, 0o700); err != nil {
		c.t.Fatalf("redistest: AddReplica: %v", err)
	}
	replica := adopt(c.t, "cluster replica", c.path, dir, clusterArgs(dir, c.args))
	if err := c.attach(replica.inst, master.inst); err != nil {
		c.t.Fatalf("redistest: AddReplica: %v", err)
	}
	return replica
}

func (c *ClusterSet) attach(replica, master *instance) error {
	var masterID, replicaID string
	err := master.ask(func(ctx context.Context, rdb *redis.Client) (err error) {
		masterID, err = rdb.ClusterMyID(ctx).Result()
		return err
	})
	if err != nil {
		return err
	}
	err = replica.ask(func(ctx context.Context, rdb *redis.Client) (err error) {
		if replicaID, err = rdb.ClusterMyID(ctx).Result(); err != nil {
			return err
		}
		for _, node := range c.Nodes {
			if err := meet(ctx, rdb, node.inst); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = poll(startTimeout, func() error { // refused until the replica has heard of its master
		return replica.ask(func(ctx context.Context, rdb *redis.Client) error {
			return rdb.ClusterReplicate(ctx, masterID).Err()
		})
	})
	if err != nil {
		return err
	}
	if err := poll(startTimeout, func() error { return linkUp(replica) }); err != nil {
		return err
	}
	return poll(startTimeout, func() error {
		for _, node := range c.Nodes {
			if err := knowsReplica(node.inst, masterID, replicaID); err != nil {
				return err
			}
		}
		return nil
	})
}

// linkUp is nil once a replica has its master's data.
func linkUp(replica *instance) error {
	return replica.ask(func(ctx context.Context, rdb *redis.Client) error {
		info, err := rdb.Info(ctx, "replication").Result()
		if err != nil {
			return err
		}
		if status := infoField(info, "master_link_status"); status != "up" {
			return fmt.Errorf("the replica's link to its master is %q", status)
		}
		return nil
	})
}

func knowsReplica(node *instance, masterID, replicaID string) error {
	return node.ask(func(ctx context.Context, rdb *redis.Client) error {
		lines, err := rdb.Do(ctx, "cluster", "replicas", masterID).StringSlice()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, replicaID) }) {
			return nil
		}
		return fmt.Errorf("%s does not know the replica yet", node.addr())
	})
}

// clusterArgs are the arguments of one node.
func clusterArgs(dir string, more []string) func(int) ([]string, error) {
	return serverArgs(dir, append([]string{
		"--cluster-enabled", "yes",
		"--cluster-config-file", "nodes.conf",
		"--cluster-node-timeout", "1000",
		"--cluster-require-full-coverage", "no",
	}, more...))
}

// launchCluster starts the masters side by side and joins them.
func launchCluster(path, dir string, more []string) (_ []*instance, err error) {
	nodes := make([]*instance, masters)
	errs := make([]error, masters)
	defer func() {
		if err == nil {
			return
		}
		for _, inst := range nodes {
			if inst != nil {
				inst.release()
			}
		}
	}()
	var wg sync.WaitGroup
	for n := range nodes {
		wg.Go(func() {
			dir := filepath.Join(dir, fmt.Sprintf("master%d", n))
			if errs[n] = os.Mkdir(dir, 0o700); errs[n] == nil {
				nodes[n], errs[n] = launch(path, dir, clusterArgs(dir, more))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := join(nodes); err != nil {
		return nil, err
	}
	return nodes, nil
}

// join shares the slots out, introduces the nodes to one another and waits
// until each of them serves the whole. Redis itself holds a fresh master back
// for two seconds, so this takes a little longer than that.
func join(nodes []*instance) error {
	for n, node := range nodes {
		err := node.ask(func(ctx context.Context, rdb *redis.Client) error {
			first, end := n*slots/len(nodes), (n+1)*slots/len(nodes)
			if err := rdb.ClusterAddSlotsRange(ctx, first, end-1).Err(); err != nil {
				return err
			}
			// Distinct epochs now save the nodes from settling the collision later.
			if err := rdb.Do(ctx, "cluster", "set-config-epoch", n+1).Err(); err != nil {
				return err
			}
			for _, other := range nodes[:n] {
				if err := meet(ctx, rdb, other); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return poll(startTimeout, func() error {
		for _, node := range nodes {
			if err := complete(node, len(nodes)); err != nil {
				return err
			}
		}
		return nil
	})
}

func meet(ctx context.Context, rdb *redis.Client, other *instance) error {
	return rdb.ClusterMeet(ctx, "127.0.0.1", strconv.Itoa(other.port)).Err()
}

// complete is nil if the node is ready and knows all slots and all nodes.
func complete(node *instance, size int) error {
	return node.ask(func(ctx context.Context, rdb *redis.Client) error {
		info, err := rdb.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		for _, want := range [][2]string{
			{"cluster_state", "ok"},
			{"cluster_slots_ok", strconv.Itoa(slots)},
			{"cluster_known_nodes", strconv.Itoa(size)},
		} {
			if got := infoField(info, want[0]); got != want[1] {
				return fmt.Errorf("%s on %s is %q, not %q", want[0], node.addr(), got, want[1])
			}
		}
		return nil
	})
}
