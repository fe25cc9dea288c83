package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// A server is a redis-server process, and the proxy through which the application
// reaches it.
type server struct {
	port  int
	dir   string
	args  []string
	proxy *proxy
	rdb   *redis.Client // of the suite itself, past the proxy

	keeper *child // nil while it is stopped
	pid    int
}

func newServer(args ...string) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &server{port: port, args: args}
	addr := loopback(port)
	if s.proxy, err = newProxy(addr); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "weir-chaos-"); err != nil {
		s.proxy.close()
		return nil, err
	}
	s.rdb = redis.NewClient(&redis.Options{Addr: addr, PoolSize: 2, DialerRetries: 1, MaxRetries: -1})
	return s, nil
}

// The shell outlives nobody: it kills Redis when its stdin ends.
const keep = `trap '' INT TERM HUP; redis-server "$@" >&2 </dev/null & echo $!; cat >/dev/null; kill -9 $! 2>/dev/null; wait`

// start runs a server that is stopped and returns when it answers.
func (s *server) start() error {
	log := filepath.Join(s.dir, "redis.log")
	var err error
	s.keeper, err = spawn(exec.Command("sh", append([]string{"-c", keep, "redis-server",
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", s.dir, "--logfile", log}, s.args...)...))
	if err != nil {
		return err
	}
	if s.pid, err = strconv.Atoi(s.keeper.first); err != nil {
		return err
	}
	if err := until(s.answers); err != nil {
		logged, _ := os.ReadFile(log)
		return fmt.Errorf("redis-server on port %d: %w\n%s", s.port, err, logged)
	}
	return s.proxy.up()
}

var errForeign = errors.New("another server has the port")

func (s *server) answers() error {
	info, err := s.ask(func(ctx context.Context) (string, error) { return s.rdb.Info(ctx, "server").Result() })
	if err != nil {
		return err
	}
	if !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", s.pid)) {
		return errForeign
	}
	return nil
}

func (s *server) ask(f func(ctx context.Context) (string, error)) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return f(ctx)
}

// do sends a command, past the proxy.
func (s *server) do(args ...any) error {
	_, err := s.ask(func(ctx context.Context) (string, error) { return s.rdb.Do(ctx, args...).Text() })
	return err
}

// stop kills the server with SIGKILL.
func (s *server) stop() {
	if s.keeper == nil {
		return
	}
	s.keeper.end()
	s.keeper, s.pid = nil, 0
	s.proxy.down()
}

// freeze stops the process until thaw. The kernel goes on accepting connections.
func (s *server) freeze() error { return syscall.Kill(s.pid, syscall.SIGSTOP) }
func (s *server) thaw() error   { return syscall.Kill(s.pid, syscall.SIGCONT) }

// close ends everything and removes what was left.
func (s *server) close() {
	s.stop()
	s.proxy.close()
	_ = s.rdb.Close()
	_ = os.RemoveAll(s.dir)
}

// busOffset is how much higher the port is on which a node of a Cluster talks to the
// others.
const busOffset = 10000

// freePort finds a free port below the range that systems give to outgoing
// connections: a client that keeps dialing must not be given the server's own port.
func freePort() (int, error) {
	for range 100 {
		port := 12000 + rand.IntN(8000)
		if free(port) && free(port+busOffset) {
			return port, nil
		}
	}
	return 0, errors.New("no free port from 12000 to 19999")
}

func free(port int) bool {
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
