package redistest

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSingle(t *testing.T) {
	begin := time.Now()
	s := Single(t, "--maxmemory", "5mb")
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("starting took %v", took)
	}
	ping(t, s.Client())
	for name, want := range map[string]string{
		"bind": "127.0.0.1", "save": "", "appendonly": "no", "maxmemory": "5242880", "dir": s.inst.dir,
	} {
		if got := config(t, s, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestSingleEndsWithItsTest(t *testing.T) {
	var s *Server
	t.Run("running", func(t *testing.T) { s = Single(t) })
	expectGone(t, s)
	t.Run("paused", func(t *testing.T) {
		s = Single(t)
		s.Pause()
	})
	expectGone(t, s)
	t.Run("stopped", func(t *testing.T) {
		s = Single(t)
		s.Stop()
	})
	expectGone(t, s)
}

func expectGone(t *testing.T, s *Server) {
	t.Helper()
	if pid := s.PID(); pid != 0 {
		t.Errorf("the server still has process %d", pid)
	}
	if conn, err := net.Dial("tcp", s.Addr); err == nil {
		_ = conn.Close()
		t.Errorf("%s still accepts connections after the test", s.Addr)
	}
	if _, err := os.Stat(filepath.Dir(s.inst.dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of the server is still there: %v", err)
	}
	reserved.Lock()
	defer reserved.Unlock()
	if reserved.ports[s.inst.port] {
		t.Errorf("port %d is still reserved", s.inst.port)
	}
}

func TestStopAndStart(t *testing.T) {
	s := Single(t)
	rdb := s.Client(impatient(time.Second))
	if err := rdb.Set(t.Context(), "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	first := s.PID()
	s.Stop()
	s.Stop() // stopping twice is fine
	if pid := s.PID(); pid != 0 {
		t.Errorf("a stopped server has process %d", pid)
	}
	if err := rdb.Ping(t.Context()).Err(); err == nil {
		t.Error("a stopped server answers")
	}
	s.Start()
	if pid := s.PID(); pid == 0 || pid == first {
		t.Errorf("process %d after %d, want another one", pid, first)
	}
	if n := s.Client().Exists(t.Context(), "key").Val(); n != 0 {
		t.Error("the key survived kill -9 of a server without persistence")
	}
	if v := judge(t, func(tb testing.TB) { (&Server{t: tb, inst: s.inst}).Start() }); v.failed == "" {
		t.Error("starting a running server is not refused")
	}
}

func TestPauseAndResume(t *testing.T) {
	s := Single(t)
	rdb := s.Client(impatient(50 * time.Millisecond))
	ping(t, rdb)
	s.Pause()
	var timeout net.Error
	if err := rdb.Ping(t.Context()).Err(); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("PING to a paused server: %v, want a timeout", err)
	}
	s.Resume()
	ping(t, s.Client())
}

func TestPassword(t *testing.T) {
	s := Single(t, "--requirepass", "secret")
	ping(t, s.Client())
}

func TestBadArgument(t *testing.T) {
	v := judge(t, func(t testing.TB) { Single(t, "--no-such-setting", "1") })
	if v.failed == "" {
		t.Error("a server with an unknown setting counts as started")
	}
}

// Another program takes the port between its choice and the server's bind.
func TestPortTaken(t *testing.T) {
	path, dir := binary(t), t.TempDir()
	var ports []int
	inst, err := launch(path, dir, func(port int) ([]string, error) {
		if ports = append(ports, port); len(ports) == 1 {
			l, err := net.Listen("tcp", loopback(port))
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { _ = l.Close() })
		}
		return serverArgs(dir, nil)(port)
	})
	if err != nil {
		t.Fatal(err)
	}
	ping(t, own(t, "redis-server", inst).Client())
	if len(ports) != 2 || inst.port != ports[1] {
		t.Errorf("runs on %d after trying %v, want the second of two", inst.port, ports)
	}
}

// Two test processes pick the same port and one server binds it: the other test
// process must not go on with a server that is not its own.
func TestForeignServer(t *testing.T) {
	a, b := Single(t), Single(t)
	if err := a.inst.answers(a.inst.running()); err != nil {
		t.Errorf("the server's own process: %v", err)
	}
	if err := a.inst.answers(b.inst.running()); err != (stop{errPortTaken}) {
		t.Errorf("the process of another server: %v, want %v", err, errPortTaken)
	}
}
