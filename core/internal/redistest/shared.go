package redistest

import (
	"os"
	"sync"
	"testing"
)

// shared is what lives as long as the test process. stopShared ends it.
var shared struct {
	mu       sync.Mutex
	single   once
	cluster  once
	cleanups []func()
}

// once remembers the outcome of a start, success or failure.
type once struct {
	done  bool
	nodes []*instance
	err   error
}

// Shared is one redis-server for the whole test process, started by the first
// test that asks. Tests keep apart by a [Prefix] of their keys; none may stop, pause, flush
// or reconfigure it. [Main] stops it.
func Shared(t testing.TB) *Server {
	t.Helper()
	path := binary(t)
	nodes, err := share(&shared.single, func(dir string) ([]*instance, error) {
		inst, err := launch(path, dir, serverArgs(dir, nil))
		return []*instance{inst}, err
	})
	if err != nil {
		t.Fatalf("redistest: starting the shared redis-server: %v", err)
	}
	return &Server{Addr: nodes[0].addr(), t: t, inst: nodes[0], shared: true}
}

// SharedCluster is one Cluster of three masters for the whole test process, as
// [Shared] is one server. Its nodes are slow to call one another dead, so that a
// busy machine does not look like an outage; a test of outages takes [Cluster].
func SharedCluster(t testing.TB) *ClusterSet {
	t.Helper()
	path := binary(t)
	nodes, err := share(&shared.cluster, func(dir string) ([]*instance, error) {
		return launchCluster(path, dir, []string{"--cluster-node-timeout", "15000"})
	})
	if err != nil {
		t.Fatalf("redistest: starting the shared cluster: %v", err)
	}
	return newClusterSet(t, nodes, true)
}

// share runs start for the first caller, in a folder of its own, and gives the
// same answer to all others.
func share(o *once, start func(dir string) ([]*instance, error)) ([]*instance, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if o.done {
		return o.nodes, o.err
	}
	o.done = true
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		o.err = err
		return nil, err
	}
	shared.cleanups = append(shared.cleanups, func() { _ = os.RemoveAll(dir) })
	o.nodes, o.err = start(dir)
	if o.err != nil {
		o.nodes = nil
	}
	for _, inst := range o.nodes {
		shared.cleanups = append(shared.cleanups, inst.release)
	}
	return o.nodes, o.err
}

// stopShared ends everything shared, the servers before their folders.
func stopShared() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	for len(shared.cleanups) > 0 {
		last := len(shared.cleanups) - 1
		shared.cleanups[last]()
		shared.cleanups = shared.cleanups[:last]
	}
}
