// Package redistest gives tests real Redis processes: a single server, a
// master with a replica under Sentinel, and a Cluster of three masters, each on
// free loopback ports, without persistence, and gone when the test is.
//
// A fake would agree with whatever its author believed about Redis. The scripts
// and the error paths of a store are only as good as the server they ran on, so
// the suite runs on the server itself:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
//
//	func TestTake(t *testing.T) {
//		store := redisstore.New(redistest.Shared(t).Client(), redisstore.Prefix(redistest.Prefix(t)))
//		...
//	}
//
// [Shared] and [SharedCluster] are started once for the whole test process and
// tests keep apart by a [Prefix] of their keys. A test that stops, pauses or reconfigures a
// server takes one of its own: [Single], [Sentinel], [Cluster].
//
// [Hang] and [DropReplies] are the networks between: one that never answers,
// and one that delays, loses answers or cuts connections on demand.
//
// Where redis-server is not installed the test is skipped, and the message says
// how to install it. With WEIR_REQUIRE_REDIS=1 in the environment it fails
// instead, so that a run that is meant to be complete cannot pass by skipping.
//
// On Linux no server outlives the test process, however that ends. On other
// systems a test process that is killed, or that panics on its timeout, leaves
// its servers behind.
package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"
)

// requireEnv names the variable that turns a skip into a failure.
const requireEnv = "WEIR_REQUIRE_REDIS"

// startTimeout bounds every wait for a process. It is far above what is needed
// on an idle machine because a loaded one is no reason to fail.
const startTimeout = 15 * time.Second

// Main runs the tests of m, stops what [Shared] and [SharedCluster] started and
// removes their files. It is all that a TestMain needs to do; like m.Run, it
// leaves the exit code to the caller, the testing package.
func Main(m *testing.M) {
	defer stopShared()
	m.Run()
}

// binary is the path of redis-server. Without one the test ends here.
func binary(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err == nil {
		return path
	}
	const need = "this test needs a real Redis and redis-server is not in PATH; " +
		"install it with `apt-get install redis-server`, `dnf install redis`, `apk add redis` or `brew install redis`"
	if os.Getenv(requireEnv) == "1" {
		t.Fatalf("redistest: %s (%s=1 does not allow a skip)", need, requireEnv)
	}
	t.Skipf("redistest: SKIPPED: %s (`make test` does it on Debian and Ubuntu)", need)
	return ""
}

// Prefix returns a key prefix that no other call in this process gets, for a
// test on a shared server: its name, and a number that keeps the rounds of
// go test -count apart.
func Prefix(t testing.TB) string {
	return fmt.Sprintf("%s:%d:", t.Name(), prefixes.Add(1))
}

var prefixes atomic.Uint64

// poll calls check every few milliseconds until it returns nil, gives up with
// stop, or the limit has passed; then it returns what check said last.
func poll(limit time.Duration, check func() error) error {
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		if hopeless, ok := err.(stop); ok {
			return hopeless.error
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %v: %w", limit, err)
		}
		<-tick.C
	}
}

// stop is an error after which polling further is useless.
type stop struct{ error }
