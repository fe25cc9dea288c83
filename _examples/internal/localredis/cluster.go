package localredis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

const slots = 16384

// A Cluster is a Redis Cluster of masters without replicas.
type Cluster struct {
	Nodes []*Server // in the order of their slots
}

// StartCluster forms a Cluster of n masters and returns when each of them serves
// all slots, which takes some seconds. Close it.
func StartCluster(n int) (*Cluster, error) {
	c := new(Cluster)
	err := c.start(n)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("starting a cluster: %w", err)
	}
	return c, nil
}

func (c *Cluster) start(n int) error {
	for range n {
		s, err := New("--cluster-enabled", "yes", "--cluster-node-timeout", "2000",
			"--cluster-require-full-coverage", "no") // a master that is down takes only its keys along
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, s)
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i, s := range c.Nodes {
		wg.Go(func() { errs[i] = s.Start() })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, s := range c.Nodes {
		if err := c.introduce(i, s); err != nil {
			return err
		}
	}
	for _, s := range c.Nodes {
		if err := until(func() error { return complete(s, n) }); err != nil {
			return err
		}
	}
	return nil
}

// introduce gives node i its slots and presents it to those before it.
func (c *Cluster) introduce(i int, s *Server) error {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer rdb.Close()
	first, end := i*slots/len(c.Nodes), (i+1)*slots/len(c.Nodes)
	if err := rdb.ClusterAddSlotsRange(ctx, first, end-1).Err(); err != nil {
		return err
	}
	// Distinct epochs now save the nodes from settling the collision later.
	if err := rdb.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
		return err
	}
	for _, other := range c.Nodes[:i] {
		if err := rdb.ClusterMeet(ctx, "127.0.0.1", strconv.Itoa(other.port)).Err(); err != nil {
			return err
		}
	}
	return nil
}

// complete is nil once s knows all n nodes and all slots.
func complete(s *Server, n int) error {
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer rdb.Close()
	info, err := rdb.ClusterInfo(context.Background()).Result()
	if err != nil {
		return err
	}
	for _, want := range []string{"cluster_state:ok", "cluster_slots_ok:" + strconv.Itoa(slots), "cluster_known_nodes:" + strconv.Itoa(n)} {
		if !strings.Contains(info, want+"\r\n") {
			return fmt.Errorf("%s does not say %s", s.Addr(), want)
		}
	}
	return nil
}

// Addrs are the addresses of the nodes.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, s := range c.Nodes {
		addrs[i] = s.Addr()
	}
	return addrs
}

// Close ends all nodes and removes what they have left.
func (c *Cluster) Close() {
	for _, s := range c.Nodes {
		s.Close()
	}
}
