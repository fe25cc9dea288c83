package pipe

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/internal/keyhash"
)

// nodes sends each job to the node of a Cluster that has its keys. If the slot has moved, it
// sends the job again over the ClusterClient, which follows redirections.
type nodes struct {
	cluster *redis.ClusterClient
	direct  direct
	newNode func(*redis.Client) *Server

	loaded atomic.Bool // the ClusterClient knows the slots, so MasterForKey does not wait
	mu     sync.RWMutex
	of     map[*redis.Client]*Server
}

func newNodes(cluster *redis.ClusterClient, c Config, n *Counters) *nodes {
	return &nodes{
		cluster: cluster,
		direct:  direct{runner: runner{cluster, n}},
		newNode: func(rdb *redis.Client) *Server { return newServer(rdb, c, hashSlot, nil, n) },
		of:      make(map[*redis.Client]*Server),
	}
}

func (n *nodes) Send(j *Job) error {
	if n.loaded.Load() {
		rdb, err := n.cluster.MasterForKey(context.Background(), j.Keys[0])
		if err == nil {
			err = n.node(rdb).Send(j)
			if j.ended != nil || !redirected(err) {
				return err
			}
			j.again()
		}
	}
	err := n.direct.Send(j)
	if err == nil {
		n.loaded.Store(true)
	}
	return err
}

func (n *nodes) Length() (sum int) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, s := range n.of {
		sum += s.Length()
	}
	return sum
}

// maxNodes bounds the nodes. ClusterClients make new clients for nodes that come and go.
const maxNodes = 1024

// node returns the server for a client of the Cluster.
func (n *nodes) node(rdb *redis.Client) *Server {
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

// byTag is the slot of a key where only keys with the same tag are known to be on one server, as in a ring.
func byTag(tag string) string { return tag }

// hashSlot returns the hash slot of a tag as two bytes.
func hashSlot(tag string) string {
	slot := keyhash.Slot(tag)
	return string([]byte{byte(slot >> 8), byte(slot)})
}
