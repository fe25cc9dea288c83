package redistest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	masters = 3
	slots   = 16384
)

// A Cluster is a Redis Cluster of three masters. It is safe for concurrent use.
type Cluster struct {
	// Nodes are the three masters, in the order of their slots at the start: the first serves the
	// lowest third. A failover or a resharding does not change Nodes.
	Nodes []*Server

	args []string

	mu       sync.Mutex // guards replicas
	replicas []*Server
	clients  clients
}

// StartCluster starts a Redis Cluster of three masters and returns when every node reports that all
// 16384 slots are served, which takes at least two seconds. A node that does not respond for a
// second is marked as failed, and the Cluster still serves the slots of the other nodes. args are
// settings of every node as on the command line ("--cluster-require-full-coverage", "yes") and take
// precedence. The caller must close the Cluster. Tests should use [NewCluster].
func StartCluster(args ...string) (*Cluster, error) {
	c := &Cluster{Nodes: make([]*Server, masters), args: args}
	errs := make([]error, masters)
	var wg sync.WaitGroup
	for n := range c.Nodes {
		wg.Go(func() { c.Nodes[n], errs[n] = c.startNode() })
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil {
		err = c.join()
	}
	if err != nil {
		c.Nodes = slices.DeleteFunc(c.Nodes, func(s *Server) bool { return s == nil })
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) startNode() (*Server, error) {
	return StartServer(append([]string{
		"--cluster-enabled", "yes",
		"--cluster-config-file", "nodes.conf",
		"--cluster-node-timeout", "1000",
		"--cluster-require-full-coverage", "no",
	}, c.args...)...)
}

// join distributes the slots, introduces the nodes to one another and waits for WaitReady. Redis
// lets a new master wait for two seconds before it serves slots.
func (c *Cluster) join() error {
	for n, node := range c.Nodes {
		_, err := node.inst.text("cluster", "addslotsrange", n*slots/masters, (n+1)*slots/masters-1)
		if err == nil { // distinct epochs avoid a collision, which the nodes would have to resolve
			_, err = node.inst.text("cluster", "set-config-epoch", n+1)
		}
		if err == nil {
			err = node.meet(c.Nodes[:n])
		}
		if err != nil {
			return fmt.Errorf("redistest: StartCluster: %w", err)
		}
	}
	return c.await("StartCluster", again(func() error {
		for n, node := range c.Nodes {
			if err := node.meet(c.Nodes[:n]); err != nil {
				return err
			}
		}
		return nil
	}, ready))
}

// again returns check, and calls meet every two seconds while check fails. A node forgets another
// one that does not reply to its MEET within the node timeout, as on a busy machine.
func again(meet func() error, check func(node *Server) error) func(node *Server) error {
	met := time.Now()
	return func(node *Server) error {
		err := check(node)
		if err != nil && time.Since(met) > 2*time.Second {
			met = time.Now()
			err = errors.Join(err, meet())
		}
		return err
	}
}

func (s *Server) meet(nodes []*Server) error {
	for _, node := range nodes {
		if _, err := s.inst.text("cluster", "meet", "127.0.0.1", node.inst.port); err != nil {
			return err
		}
	}
	return nil
}

// WaitReady waits until each of Nodes reports that all slots are served, for example after a node
// was started again. It returns an error after a minute.
func (c *Cluster) WaitReady() error {
	return c.await("WaitReady", ready)
}

// ready returns nil if a node reports that all slots are served.
func ready(node *Server) error {
	want := map[string]string{"cluster_state": "ok", "cluster_slots_ok": strconv.Itoa(slots), "cluster_size": strconv.Itoa(masters)}
	info, err := node.inst.text("cluster", "info")
	for name, want := range want {
		if got := infoField(info, name); err == nil && got != want {
			err = fmt.Errorf("%s on %s is %q, want %s", name, node.Addr, got, want)
		}
	}
	return err
}

// await polls until check returns nil for each of Nodes.
func (c *Cluster) await(verb string, check func(node *Server) error) error {
	err := poll(func() error {
		for _, node := range c.Nodes {
			if err := check(node); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("redistest: %s: %w", verb, err)
	}
	return nil
}

// Close ends all nodes and closes the clients that Client has returned.
func (c *Cluster) Close() {
	c.clients.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, node := range slices.Concat(c.Nodes, c.replicas) {
		node.Close()
	}
}

// Addrs returns the addresses of Nodes.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, s := range c.Nodes {
		addrs[i] = s.Addr
	}
	return addrs
}

// Client returns a new Cluster client with go-redis's default options. Each edit may change the
// options. Close closes the client.
func (c *Cluster) Client(edit ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	opts := &redis.ClusterOptions{Addrs: c.Addrs(), Password: c.Nodes[0].inst.password}
	for _, f := range edit {
		f(opts)
	}
	rdb := redis.NewClusterClient(opts)
	c.clients.add(rdb)
	return rdb
}

// AddReplica starts a replica of a master and returns when the replica is in sync and every node
// knows it, so that it can be promoted. Close ends the replica.
func (c *Cluster) AddReplica(master *Server) (*Server, error) {
	if err := master.owned("AddReplica"); err != nil {
		return nil, err
	}
	replica, err := c.startNode()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.replicas = append(c.replicas, replica)
	c.mu.Unlock()
	ids, err := nodeIDs(master, replica)
	meet := func() error { return replica.meet(c.Nodes) }
	if err == nil {
		err = meet()
	}
	if err == nil {
		replicate := again(meet, func(*Server) error { // rejected until the replica knows its master
			_, err := replica.inst.text("cluster", "replicate", ids[0])
			return err
		})
		err = poll(func() error { return replicate(replica) })
	}
	if err == nil {
		err = master.inst.awaitReplica(replica.inst)
	}
	if err != nil {
		return nil, fmt.Errorf("redistest: AddReplica: %w", err)
	}
	return replica, c.await("AddReplica", again(meet, func(node *Server) error {
		text, err := node.inst.text("cluster", "nodes")
		for line := range strings.Lines(text) {
			if fields := strings.Fields(line); fields[0] == ids[1] && fields[3] == ids[0] {
				return nil
			}
		}
		return cmp.Or(err, fmt.Errorf("%s does not know the replica yet", node.Addr))
	}))
}

// nodeIDs returns the IDs of nodes in the Cluster.
func nodeIDs(nodes ...*Server) (ids []string, err error) {
	for _, node := range nodes {
		id, err := node.inst.text("cluster", "myid")
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Reshard moves n slots with their keys from one master to another, with redis-cli --cluster
// reshard, and returns when all nodes agree on the new owner. It may be called while clients use
// the Cluster.
func (c *Cluster) Reshard(from, to *Server, n int) error {
	if err := from.owned("Reshard"); err != nil {
		return err
	}
	ids, err := nodeIDs(from, to)
	if err != nil {
		return fmt.Errorf("redistest: Reshard: %w", err)
	}
	var out bytes.Buffer
	cmd := exec.Command(cli(from.inst.path), "--cluster", "reshard", from.Addr,
		"--cluster-from", ids[0], "--cluster-to", ids[1],
		"--cluster-slots", strconv.Itoa(n), "--cluster-pipeline", "100", "--cluster-yes")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("redistest: Reshard: redis-cli: %w\n%s", err, lastLines(out.String(), 40))
	}
	var first []string
	return c.await("Reshard", func(node *Server) error {
		text, err := node.inst.text("cluster", "nodes")
		view := ownership(text)
		if node == c.Nodes[0] {
			first = view
		}
		if err == nil && !slices.Equal(view, first) {
			err = fmt.Errorf("the slots of %s are %q, those of %s are %q", node.Addr, view, c.Nodes[0].Addr, first)
		}
		return err
	})
}

// ownership returns the node ID and the slots of each line of CLUSTER NODES that lists slots.
func ownership(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 8 {
			lines = append(lines, fields[0]+" "+strings.Join(fields[8:], " "))
		}
	}
	slices.Sort(lines)
	return lines
}
