// Package localredis runs redis-server processes of this machine for the examples
// that show Redis, so that they run without one, and for their tests.
package localredis

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// patience bounds every wait for a process. It is far above what is needed,
// because a busy machine is no reason to fail.
const patience = 20 * time.Second

// Installed says whether there is a redis-server to run.
func Installed() bool {
	_, err := exec.LookPath("redis-server")
	return err == nil
}

// A Server is a redis-server process on a port of its own, or the place for one.
type Server struct {
	port     int
	dir      string
	settings []string

	mu    sync.Mutex
	pid   int       // 0 while it is stopped
	stdin io.Closer // the process lives until this is closed
	done  chan struct{}
}

// New finds a free port for a server without persistence, and starts nothing yet.
// settings are more of them, as on the command line. Close it.
func New(settings ...string) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weir-redis-")
	if err != nil {
		return nil, err
	}
	return &Server{port: port, dir: dir, settings: settings}, nil
}

// Addr is the host:port of s. It stays the same over Stop and Start.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// PID is the process id of the server, 0 if it was never started or was stopped.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pid
}

// The shell outlives nobody: it kills Redis when its stdin ends, be it closed by
// Stop or by the end of this process, however that ends. Signals that a terminal
// sends to all of them are no reason to leave Redis behind.
const keeper = `trap '' INT TERM HUP; redis-server "$@" >&2 </dev/null & echo $!; cat >/dev/null; kill -9 $! 2>/dev/null; wait`

// Start runs a server that does not run and returns when it answers.
func (s *Server) Start() error {
	s.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	cmd := exec.Command("sh", append([]string{"-c", keeper, "redis-server",
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no",
		"--dir", s.dir, "--logfile", filepath.Join(s.dir, "redis.log"),
	}, s.settings...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	s.pid, _ = strconv.Atoi(strings.TrimSpace(line))
	s.stdin, s.done = stdin, make(chan struct{})
	go func(done chan struct{}) {
		defer close(done)
		_ = cmd.Wait()
	}(s.done)
	if err := until(s.answers); err != nil {
		s.stop()
		logged, _ := os.ReadFile(filepath.Join(s.dir, "redis.log"))
		return fmt.Errorf("redis-server on %s: %w\n%s", s.Addr(), err, logged)
	}
	return nil
}

// Stop ends the process with SIGKILL and returns when it is gone. Stopping a server
// that does not run does nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

func (s *Server) stop() {
	if s.stdin == nil {
		return
	}
	s.stdin.Close()
	<-s.done
	s.pid, s.stdin = 0, nil
}

// Close stops s and removes what it has left.
func (s *Server) Close() {
	s.Stop()
	_ = os.RemoveAll(s.dir)
}

// answers is nil once the server executes commands, and not another one that was
// quicker to take its port.
func (s *Server) answers() error {
	conn, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(conn, "INFO server\r\n")
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if pid, ok := strings.CutPrefix(lines.Text(), "process_id:"); ok {
			if pid != strconv.Itoa(s.pid) {
				return fmt.Errorf("%w: process %s has it", errTaken, pid)
			}
			return nil
		}
	}
	return fmt.Errorf("it does not tell its process id: %w", cmp.Or(lines.Err(), io.EOF))
}

// Revive starts the server again whenever somebody has killed it, pause later,
// until stop is called. A frozen one is left alone.
func (s *Server) Revive(pause time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s.gone(ctx) {
			log.Printf("Redis is gone. It is started again in %v.", pause)
			if !wait(ctx, pause) {
				return
			}
			if err := s.Start(); err != nil {
				log.Print(err)
				return
			}
			log.Printf("Redis runs again, as process %d.", s.PID())
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// gone waits until nobody listens on the port of s any more. It returns false if ctx
// ends before.
func (s *Server) gone(ctx context.Context) bool {
	for wait(ctx, 250*time.Millisecond) {
		conn, err := net.DialTimeout("tcp", s.Addr(), time.Second)
		if err != nil {
			return true
		}
		conn.Close()
	}
	return false
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// errTaken does not pass by waiting.
var errTaken = errors.New("another server has the port")

// until asks check every few milliseconds until it is content.
func until(check func() error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		err := check()
		if err == nil || errors.Is(err, errTaken) || time.Now().After(deadline) {
			return err
		}
	}
}
