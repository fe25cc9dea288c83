// Package redistest starts real Redis servers for tests: a single server, a master and a replica
// under Sentinel, or a Cluster of three masters. It also starts TCP proxies that simulate network
// faults. All listen on free loopback ports, and servers keep their files in temporary folders.
//
// # Tests
//
// A test calls [NewServer], [NewCluster], [NewSentinel] or [NewProxy]. When the test ends, the
// servers and proxies are closed:
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
// Tests that only read and write keys can share one server or Cluster for the whole test process,
// by [Shared] or [SharedCluster]. Each test must prefix its keys with [Prefix]:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
//
//	func TestLogin(t *testing.T) {
//		rdb, prefix := redistest.Shared(t).Client(), redistest.Prefix(t)
//		store := redisstore.New(rdb, "test", redisstore.Prefix(prefix))
//		...
//	}
//
// Without redis-server, a test is skipped, or fails if WEIR_REQUIRE_REDIS=1 is in the environment. With -short,
// it is skipped in any case.
// WEIR_REDIS_SERVER names another server program in PATH, or its path: "valkey-server".
//
// # Programs
//
// A program calls [StartServer], [StartCluster], [StartSentinel] or [StartProxy], which return an
// error. It must close everything that it has started.
//
// A server ends at the latest with the process that started it, even if that process is killed.
// Starting a server needs a Unix shell; on Windows the package compiles and its tests are skipped.
package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ErrNotInstalled is returned by the Start functions if redis-server is not in PATH and
// WEIR_REDIS_SERVER is not set.
var ErrNotInstalled = errors.New("redistest: redis-server is not in PATH; " +
	"install it with `apt-get install redis-server`, `dnf install redis`, `apk add redis` or `brew install redis`")

// lookServer returns the path of the server program.
func lookServer() (string, error) {
	if name := os.Getenv("WEIR_REDIS_SERVER"); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("WEIR_REDIS_SERVER: %w", err)
		}
		return filepath.Abs(path) // servers run in folders of their own
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", ErrNotInstalled
	}
	return path, nil
}

// cli returns the client program of a server program: redis-cli for redis-server.
func cli(server string) string {
	dir, name := filepath.Split(server)
	name = strings.Replace(name, "-server", "-cli", 1)
	if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
		return path
	}
	return name // in PATH
}

// startTimeout bounds every wait for a process. It is far longer than an idle machine needs, so
// that a busy machine does not exceed it.
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
