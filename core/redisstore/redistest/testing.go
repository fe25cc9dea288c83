package redistest

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// Require skips the test with -short, and if redis-server is not in PATH. With WEIR_REQUIRE_REDIS=1 in the
// environment, a missing redis-server fails the test instead, as it does if the program that WEIR_REDIS_SERVER names
// is missing. All functions that take a testing.TB, except [Prefix], call Require.
func Require(t testing.TB) {
	t.Helper()
	_, err := lookServer()
	switch {
	case err == nil && testing.Short():
		t.Skip("SKIPPED: -short leaves out servers")
	case err == nil:
	case err != ErrNotInstalled:
		t.Fatal(err)
	case os.Getenv("WEIR_REQUIRE_REDIS") == "1":
		t.Fatalf("%v (WEIR_REQUIRE_REDIS=1 does not allow a skip)", err)
	default:
		t.Skipf("SKIPPED: %v", err)
	}
}

// NewServer starts a server as [StartServer] does, and closes it when the test ends. If the test
// has failed, the end of the server's log is logged.
func NewServer(t testing.TB, args ...string) *Server {
	t.Helper()
	s := started(t, func() (*Server, error) { return StartServer(args...) })
	logFailure(t, s)
	return s
}

// NewCluster starts a Cluster as [StartCluster] does, and closes it when the test ends. If the test
// has failed, the ends of the nodes' logs are logged.
func NewCluster(t testing.TB, args ...string) *Cluster {
	t.Helper()
	c := started(t, func() (*Cluster, error) { return StartCluster(args...) })
	logFailure(t, c.Nodes...)
	return c
}

// NewSentinel starts a Sentinel as [StartSentinel] does, and closes it when the test ends. If the
// test has failed, the ends of the processes' logs are logged.
func NewSentinel(t testing.TB, args ...string) *Sentinel {
	t.Helper()
	s := started(t, func() (*Sentinel, error) { return StartSentinel(args...) })
	logFailure(t, s.Master, s.Replica, s.monitor)
	return s
}

// NewProxy starts a Proxy as [StartProxy] does, and closes it when the test ends.
func NewProxy(t testing.TB, addr string) *Proxy {
	t.Helper()
	return started(t, func() (*Proxy, error) { return StartProxy(addr) })
}

func started[S interface{ Close() }](t testing.TB, start func() (S, error)) S {
	t.Helper()
	Require(t)
	s, err := start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// logFailure logs the end of the servers' logs before they are closed.
func logFailure(t testing.TB, servers ...*Server) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, s := range servers {
			t.Logf("redistest: the log of %s ends with\n%s", s.Addr, lastLines(s.inst.log(), 40))
		}
	})
}

var (
	sharedServer  shared[*Server]
	sharedCluster shared[*Cluster]
	prefixes      atomic.Uint64
)

// A shared holds a server or a Cluster that is started once for the test process.
type shared[S interface{ Close() }] struct {
	mu   sync.Mutex
	done bool
	s    S
	err  error
}

func (h *shared[S]) get(t testing.TB, start func() (S, error)) S {
	t.Helper()
	Require(t)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.done {
		h.done = true
		h.s, h.err = start()
	}
	if h.err != nil {
		t.Fatal(h.err)
	}
	return h.s
}

func (h *shared[S]) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done && h.err == nil {
		h.s.Close()
	}
}

// Main runs the tests of m and closes the servers of [Shared] and [SharedCluster]. Like m.Run, it
// leaves the exit code to package testing. A package whose tests use Shared or SharedCluster must
// call Main in its TestMain.
func Main(m *testing.M) {
	defer sharedServer.close()
	defer sharedCluster.close()
	m.Run()
}

// Shared returns a Server that is shared by all tests of the process. The first call starts it, and
// [Main] closes it. Shared calls [Require], and fails the test if the server cannot be started.
// Tests must prefix their keys with [Prefix] and must not flush or reconfigure the server. Stop,
// Start, Pause and Resume return an error. The clients created by the returned Server are closed
// when the test ends.
func Shared(t testing.TB) *Server {
	t.Helper()
	s := sharedServer.get(t, func() (*Server, error) { return StartServer() }).view()
	t.Cleanup(s.Close)
	return s
}

// SharedCluster is like [Shared] for a Cluster. AddReplica and Reshard return an error, too. A node
// is marked as failed after 15 seconds, so pauses of a busy machine do not look like outages.
func SharedCluster(t testing.TB) *Cluster {
	t.Helper()
	origin := sharedCluster.get(t, func() (*Cluster, error) { return StartCluster("--cluster-node-timeout", "15000") })
	c := new(Cluster)
	for _, node := range origin.Nodes {
		c.Nodes = append(c.Nodes, node.view())
	}
	t.Cleanup(c.Close)
	return c
}

// view returns a Server for one test that shares s with other tests.
func (s *Server) view() *Server { return &Server{Addr: s.Addr, inst: s.inst, shared: true} }

// Prefix returns a prefix for the keys of a test on a shared server. It consists of the name of the
// test and a number that differs in every call.
func Prefix(t testing.TB) string {
	return fmt.Sprintf("%s:%d:", t.Name(), prefixes.Add(1))
}
