package redisstore

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// nodes sends each request to the node of a Cluster that has its keys. If the slot has moved, it
// sends the request again over the ClusterClient, which follows redirections.
type nodes struct {
	cluster *redis.ClusterClient
	direct  direct
	newNode func(*redis.Client) *server

	loaded atomic.Bool // the ClusterClient knows the slots, so MasterForKey does not wait
	mu     sync.RWMutex
	of     map[*redis.Client]*server
}

func newNodes(cluster *redis.ClusterClient, c config, n *counters) *nodes {
	return &nodes{
		cluster: cluster,
		direct:  direct{runner: runner{cluster, n}},
		newNode: func(rdb *redis.Client) *server { return newServer(rdb, c, hashSlot, nil, n) },
		of:      make(map[*redis.Client]*server),
	}
}

func (n *nodes) send(d *deadline, r *request) error {
	if n.loaded.Load() {
		rdb, err := n.cluster.MasterForKey(context.Background(), r.keys[0])
		if err == nil {
			err = n.node(rdb).send(d, r)
			if d.err != nil || !redirected(err) {
				return err
			}
			r.err = nil
			r.left.Store(false)
			if r.places != nil {
				r.places = r.places.again()
			}
		}
	}
	err := n.direct.send(d, r)
	if err == nil {
		n.loaded.Store(true)
	}
	return err
}

func (n *nodes) length() (sum int) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, s := range n.of {
		sum += s.length()
	}
	return sum
}

// maxNodes bounds the nodes. ClusterClients make new clients for nodes that come and go.
const maxNodes = 1024

// node returns the server for a client of the Cluster.
func (n *nodes) node(rdb *redis.Client) *server {
	n.mu.RLock()
	s := n.of[rdb]
	n.mu.RUnlock()
	if s != nil {
		return s
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if s = n.of[rdb]; s == nil {
		if len(n.of) >= maxNodes {
			clear(n.of)
		}
		s = n.newNode(rdb)
		n.of[rdb] = s
	}
	return s
}
