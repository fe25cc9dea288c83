// Package redistest starts real Redis servers: a single server, a master and a replica under
// Sentinel, a Cluster of three masters, and a proxy that delays, loses or cuts the network in front
// of any of them. All listen on free loopback ports and keep their files in temporary folders.
//
// # Tests
//
// A test calls [NewServer], [NewCluster], [NewSentinel] or [NewProxy], which end with the test:
//
//	func TestLogin_RedisDown(t *testing.T) {
//		server := redistest.NewServer(t)
//		app := newApp(server.Client())
//		if err := server.Stop(); err != nil {
//			t.Fatal(err)
//		}
//		...
//	}
//
// Tests that only read and write keys share one server or Cluster for the whole test process,
// [Shared] or [SharedCluster]. Each test puts a [Prefix] in front of its keys:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
//
//	func TestLogin(t *testing.T) {
//		rdb, prefix := redistest.Shared(t).Client(), redistest.Prefix(t)
//		store := redisstore.New(rdb, redisstore.Prefix(prefix))
//		...
//	}
//
// A test is skipped where redis-server is not installed, and fails if WEIR_REQUIRE_REDIS=1 is in
// the environment.
//
// # Programs
//
// A program calls [StartServer], [StartCluster], [StartSentinel] or [StartProxy], which return an
// error, and closes the servers that it has started.
//
// A server ends at the latest with the process that started it, even if that process is killed.
// Starting a server needs a Unix shell; on Windows the package compiles and its tests are skipped.
package redistest

import (
	"errors"
	"fmt"
	"time"
)

// ErrNotInstalled is returned by the Start functions if redis-server is not in PATH.
var ErrNotInstalled = errors.New("redistest: redis-server is not in PATH; " +
	"install it with `apt-get install redis-server`, `dnf install redis`, `apk add redis` or `brew install redis`")

// startTimeout bounds every wait for a process. It is far above the time that an idle machine
// needs, so that a busy machine does not exceed it.
const startTimeout = time.Minute

// poll calls check every few milliseconds until it returns nil or a permanent error, or until
// startTimeout has passed.
func poll(check func() error) error {
	deadline := time.Now().Add(startTimeout)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		if p, ok := err.(permanent); ok {
			return p.error
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %v: %w", startTimeout, err)
		}
		<-tick.C
	}
}

// permanent is an error that ends poll.
type permanent struct{ error }
