package redistest

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A Server is one redis-server process. Its methods may be called from any
// goroutine; those that fail end the test, so the ones that change the process
// belong in the goroutine of the test.
type Server struct {
	// Addr is the host:port of the server. It stays the same over Stop and Start.
	Addr string

	t      testing.TB
	inst   *instance
	shared bool
}

// Single starts a redis-server without persistence for this test alone. It has
// Redis's default settings otherwise; args are more of them, as on the command
// line ("--maxmemory", "5mb"), and win over the ones given here. A password set
// by "--requirepass" is used by [Server.Client]. The server ends with the test.
func Single(t testing.TB, args ...string) *Server {
	t.Helper()
	path := binary(t)
	dir := t.TempDir()
	return adopt(t, "redis-server", path, dir, serverArgs(dir, args))
}

// adopt launches an instance that belongs to t.
func adopt(t testing.TB, what, path, dir string, args func(int) ([]string, error)) *Server {
	t.Helper()
	inst, err := launch(path, dir, args)
	if err != nil {
		t.Fatalf("redistest: starting %s: %v", what, err)
	}
	return own(t, what, inst)
}

// own hands an instance over to t, which ends it.
func own(t testing.TB, what string, inst *instance) *Server {
	t.Cleanup(func() {
		inst.release()
		if t.Failed() {
			t.Logf("redistest: last words of %s on %s:\n%s", what, inst.addr(), lastLines(inst.log(), 40))
		}
	})
	return &Server{Addr: inst.addr(), t: t, inst: inst}
}

// Client returns a new client with go-redis's default options, which each edit
// may change. It is closed when the test ends.
func (s *Server) Client(edit ...func(*redis.Options)) *redis.Client {
	opts := &redis.Options{Addr: s.Addr, Password: s.inst.password}
	for _, f := range edit {
		f(opts)
	}
	rdb := redis.NewClient(opts)
	s.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Stop kills the server with SIGKILL and returns when it is gone. Nothing that
// it held survives. Stopping a stopped server does nothing.
func (s *Server) Stop() {
	s.t.Helper()
	s.refuseShared("Stop")
	s.inst.stop()
}

// Start runs a stopped server again, with the same arguments on the same port,
// and returns when it answers.
func (s *Server) Start() {
	s.t.Helper()
	s.refuseShared("Start")
	if err := s.inst.start(); err != nil {
		s.t.Fatalf("redistest: Start: %v", err)
	}
}

// Pause freezes the server with SIGSTOP and returns when it stands still: the
// kernel goes on accepting connections for it and nothing is answered.
func (s *Server) Pause() {
	s.t.Helper()
	s.refuseShared("Pause")
	proc := s.inst.running()
	if proc == nil {
		s.t.Fatal("redistest: Pause: the server is stopped")
	}
	err := proc.pause()
	if err == nil {
		err = poll(startTimeout, func() error {
			state, err := processState(proc.pid())
			if err != nil {
				return stop{err}
			}
			if state != 'T' {
				return fmt.Errorf("process %d is in state %c", proc.pid(), state)
			}
			return nil
		})
	}
	if err != nil {
		s.t.Fatalf("redistest: Pause: %v", err)
	}
}

// Resume lets a paused server go on with SIGCONT and returns when it answers.
// What clients sent meanwhile is executed.
func (s *Server) Resume() {
	s.t.Helper()
	s.refuseShared("Resume")
	proc := s.inst.running()
	if proc == nil {
		s.t.Fatal("redistest: Resume: the server is stopped")
	}
	err := proc.resume()
	if err == nil {
		err = poll(startTimeout, func() error { return s.inst.answers(proc) })
	}
	if err != nil {
		s.t.Fatalf("redistest: Resume: %v", err)
	}
}

// PID is the process id of the server, or 0 while it is stopped.
func (s *Server) PID() int {
	if proc := s.inst.running(); proc != nil {
		return proc.pid()
	}
	return 0
}

func (s *Server) refuseShared(verb string) {
	s.t.Helper()
	if s.shared {
		s.t.Fatalf("redistest: %s: the shared server belongs to other tests too; take Single or Cluster", verb)
	}
}
