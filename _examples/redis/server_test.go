package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/weir-go/weir/examples/internal/demotest"
)

// A server is a redis-server process on a port of its own.
type server struct {
	addr  string
	stdin io.Closer // the process lives until this is closed
	done  chan struct{}
}

// newServer finds a free port, and starts nothing yet.
func newServer(t *testing.T) *server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		const need = "this test needs a real Redis, and redis-server is not in PATH"
		if os.Getenv("WEIR_REQUIRE_REDIS") == "1" {
			t.Fatalf("%s (WEIR_REQUIRE_REDIS=1 does not allow a skip)", need)
		}
		t.Skipf("SKIPPED: %s", need)
	}
	s := &server{addr: freeAddr(t)}
	t.Cleanup(s.kill)
	return s
}

// freeAddr finds a free port below the range that systems give to outgoing
// connections: a client that keeps dialing a stopped server must not be given
// the server's own port.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(1000))
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("no free port from 10000 to 10999")
	return ""
}

// start starts the process and waits until it answers.
func (s *server) start(t *testing.T) {
	t.Helper()
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	// The shell outlives nobody: it kills Redis when its stdin ends, be it closed
	// by kill or by the end of the test process.
	cmd := exec.Command("sh", "-c", `redis-server --port "$0" --bind 127.0.0.1 --loglevel warning --save '' --appendonly no --dir "$1" & cat; kill -9 $!; wait`, port, t.TempDir())
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.stdin, s.done = stdin, make(chan struct{})
	go func() {
		defer close(s.done)
		_ = cmd.Wait()
	}()
	demotest.Until(t, "Redis answers", s.answers)
}

func (s *server) answers() bool {
	conn, err := net.DialTimeout("tcp", s.addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(conn, "PING\r\n")
	reply, _ := bufio.NewReader(conn).ReadString('\n')
	return reply == "+PONG\r\n"
}

// kill ends the process with SIGKILL and waits until it is gone.
func (s *server) kill() {
	if s.stdin == nil {
		return
	}
	s.stdin.Close()
	<-s.done
	s.stdin = nil
}
