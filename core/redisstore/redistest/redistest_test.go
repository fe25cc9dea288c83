package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/testkit"
)

func TestMain(m *testing.M) { Main(m) }

// outcome is a testing.TB that records whether a function has skipped or failed the test.
type outcome struct {
	testing.TB
	skipped, failed string
}

func (o *outcome) Skipf(format string, args ...any) {
	o.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (o *outcome) Fatalf(format string, args ...any) {
	o.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestRequire_NotInstalled(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("WEIR_REDIS_SERVER", "")
	for _, required := range []bool{false, true} {
		t.Setenv("WEIR_REQUIRE_REDIS", map[bool]string{true: "1"}[required])
		o := &outcome{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			NewServer(o)
		}()
		<-done
		for kind, got := range map[string]string{"skip": o.skipped, "failure": o.failed} {
			want := (kind == "failure") == required
			if strings.Contains(got, "apt-get install redis-server") != want {
				t.Errorf("required %t: %s %q, want one: %t", required, kind, got, want)
			}
		}
	}
	if _, err := StartServer(); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("StartServer: got %v, want ErrNotInstalled", err)
	}
}

// WEIR_REDIS_SERVER names a script in PATH, the script by its path, and a program that is missing.
func TestStartServer_OtherProgram(t *testing.T) {
	Require(t)
	server, err := lookServer()
	testkit.Must(t, err)
	dir := t.TempDir()
	script, started := filepath.Join(dir, "other-server"), filepath.Join(dir, "started")
	testkit.Must(t, os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\n>%q\nexec %q \"$@\"\n", started, server), 0o700))
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	for _, name := range []string{"other-server", script} {
		t.Setenv("WEIR_REDIS_SERVER", name)
		NewServer(t)
		if err := os.Remove(started); err != nil {
			t.Errorf("%s was not started: %v", name, err)
		}
	}
	if got := cli(script); got != "other-cli" {
		t.Errorf("the client program is %s, want other-cli", got)
	}
	client := filepath.Join(dir, "other-cli")
	testkit.Must(t, os.WriteFile(client, []byte("#!/bin/sh\n"), 0o700))
	if got := cli(script); got != client {
		t.Errorf("the client program is %s, want %s beside the server", got, client)
	}
	t.Setenv("WEIR_REDIS_SERVER", "no-such-server")
	if _, err := StartServer(); err == nil || !strings.Contains(err.Error(), `"no-such-server"`) {
		t.Errorf("got %v, want an error that names the missing program", err)
	}
}

func TestServer_Lifecycle(t *testing.T) {
	t.Parallel()
	s, err := StartServer("--maxmemory", "5mb", "--requirepass", "secret")
	testkit.Must(t, err)
	t.Cleanup(s.Close)
	once := func(o *redis.Options) { o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true }
	rdb := s.Client(once)
	replies := func(want bool) {
		t.Helper()
		conn, err := net.Dial("tcp", s.Addr)
		if err == nil {
			_ = conn.Close()
			err = s.inst.silent() // an error if the server answers
		} else {
			err = nil
		}
		if got := err != nil; got != want {
			t.Fatalf("the server answers: %t, want %t", got, want)
		}
	}
	testkit.Must(t, rdb.Set(t.Context(), "key", "value", 0).Err())
	if got := rdb.ConfigGet(t.Context(), "maxmemory").Val()["maxmemory"]; got != "5242880" {
		t.Errorf("maxmemory is %s, want 5242880", got)
	}
	if err := s.Start(); err == nil {
		t.Error("Start of a running server: no error")
	}
	testkit.Must(t, s.Pause())
	replies(false)
	testkit.Must(t, s.Resume())
	replies(true)
	if got := rdb.Get(t.Context(), "key").Val(); got != "value" {
		t.Errorf("after Resume, the key holds %q, want value", got)
	}
	first := s.PID()
	testkit.Must(t, s.Stop())
	testkit.Must(t, s.Stop())
	replies(false)
	if s.PID() != 0 || s.Pause() == nil || s.Resume() == nil {
		t.Errorf("a stopped server has process %d, or can be paused or resumed", s.PID())
	}
	testkit.Must(t, s.Start())
	if pid := s.PID(); pid == 0 || pid == first {
		t.Errorf("process %d after %d, want another one", pid, first)
	}
	if n := s.Client().Exists(t.Context(), "key").Val(); n != 0 {
		t.Error("the key exists after Stop and Start")
	}
	killed, err := os.FindProcess(s.PID())
	testkit.Must(t, err)
	testkit.Must(t, killed.Kill())
	testkit.Must(t, poll(func() error {
		if pid := s.PID(); pid != 0 {
			return fmt.Errorf("a killed server has process %d", pid)
		}
		return nil
	}))
	testkit.Must(t, s.Start())
	testkit.Must(t, s.Pause()) // Close ends a paused server, too
	s.Close()
	replies(false)
	if _, err := os.Stat(s.inst.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of a closed server: %v, want none", err)
	}
	if err := rdb.Ping(t.Context()).Err(); !errors.Is(err, redis.ErrClosed) {
		t.Errorf("a client after Close: %v, want ErrClosed", err)
	}
}

func TestStartServer_BadArgument(t *testing.T) {
	t.Parallel()
	Require(t)
	if _, err := StartServer("--no-such-setting", "1"); err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("got %v, want an error that names the setting", err)
	}
}

// Another process takes the port after it was chosen and before the server starts, or uses the port
// without listening on all its addresses.
func TestLaunch_PortTaken(t *testing.T) {
	t.Parallel()
	Require(t)
	var ports []int
	s, err := start(func(_ string, port int) ([]string, error) {
		if ports = append(ports, port); len(ports) == 1 {
			l, err := net.Listen("tcp", loopback(port))
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { _ = l.Close() })
		}
		return nil, nil
	})
	testkit.Must(t, err)
	t.Cleanup(s.Close)
	if len(ports) != 2 || s.inst.port != ports[1] {
		t.Errorf("the port is %d after trying %v, want the second of two", s.inst.port, ports)
	}
	other := NewServer(t)
	if err := s.inst.replies(other.inst.running()); err != (permanent{errPortTaken}) {
		t.Errorf("the process of another server: %v, want %v", err, errPortTaken)
	}
}

func TestShared(t *testing.T) {
	var closed *redis.Client
	t.Run("a test", func(t *testing.T) {
		closed = Shared(t).Client()
		testkit.Must(t, closed.Ping(t.Context()).Err())
	})
	s := Shared(t)
	testkit.Must(t, s.Client().Ping(t.Context()).Err())
	if err := closed.Ping(t.Context()).Err(); !errors.Is(err, redis.ErrClosed) {
		t.Errorf("a client of a test that has ended: %v, want ErrClosed", err)
	}
	for name, err := range map[string]error{"Stop": s.Stop(), "Start": s.Start(), "Pause": s.Pause(), "Resume": s.Resume()} {
		if err == nil {
			t.Errorf("%s of the shared server: no error", name)
		}
	}
	if a, b := Prefix(t), Prefix(t); a == b {
		t.Errorf("two prefixes are %q", a)
	}
}

// Servers end with the process that started them, both when it ends by itself and when it is
// killed. The process is this test binary, running this test again.
func TestServer_EndsWithProcess(t *testing.T) {
	t.Parallel()
	const env = "REDISTEST_STARTS_SERVERS"
	if how := os.Getenv(env); how != "" {
		fmt.Println("\nserver", Shared(t).Addr)
		if how == "killed" {
			fmt.Println("server", NewServer(t).Addr)
			select {}
		}
		return
	}
	Require(t)
	for how, n := range map[string]int{"ended": 1, "killed": 2} {
		tmp := t.TempDir()
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), env+"="+how, "TMPDIR="+tmp)
		out, err := cmd.StdoutPipe()
		testkit.Must(t, err)
		testkit.Must(t, cmd.Start())
		var addrs []string
		for lines := bufio.NewScanner(out); len(addrs) < n && lines.Scan(); {
			if addr, ok := strings.CutPrefix(lines.Text(), "server "); ok {
				addrs = append(addrs, addr)
			}
		}
		if how == "killed" {
			testkit.Must(t, cmd.Process.Kill())
		}
		_ = cmd.Wait()
		if len(addrs) != n {
			t.Fatalf("%s: the process has started %q, want %d servers", how, addrs, n)
		}
		for _, addr := range addrs {
			testkit.Must(t, poll(func() error {
				conn, err := net.Dial("tcp", addr)
				if err == nil {
					_ = conn.Close()
					return fmt.Errorf("%s: the server on %s runs", how, addr)
				}
				return nil
			}))
		}
		if left, err := filepath.Glob(tmp + "/redistest*"); how == "ended" && len(left) != 0 || err != nil {
			t.Errorf("Main has left %q: %v", left, err)
		}
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, "--cluster-require-full-coverage", "yes")
	rdb := c.Client()
	set := func() error { // of more keys than can be on one node by chance
		for n := range 30 {
			if err := rdb.Set(t.Context(), fmt.Sprint("key", n), n, 0).Err(); err != nil {
				return err
			}
		}
		return nil
	}
	testkit.Must(t, set())
	for _, node := range c.Nodes {
		if n := node.Client().DBSize(t.Context()).Val(); n == 0 {
			t.Errorf("of 30 keys none is on %s", node.Addr)
		}
	}
	testkit.Must(t, c.Nodes[1].Stop())
	testkit.Must(t, poll(func() error {
		if err := set(); err == nil {
			return errors.New("all slots are served without one of the masters")
		}
		return nil
	}))
	testkit.Must(t, c.Nodes[1].Start())
	testkit.Must(t, c.WaitReady())
	testkit.Must(t, poll(set))
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	s := NewSentinel(t, "--requirepass", "secret")
	rdb := s.Client(func(o *redis.FailoverOptions) { o.DialerRetries = 1 })
	testkit.Must(t, rdb.Set(t.Context(), "before", 1, 0).Err())
	if now, err := s.Current(); err != nil || now != s.Master {
		t.Fatalf("the master is %v, %v; want the first one", now, err)
	}
	testkit.Must(t, s.Master.WaitReplica(s.Replica))
	if n := s.Replica.Client().Exists(t.Context(), "before").Val(); n != 1 {
		t.Error("after WaitReplica, the key is not on the replica")
	}
	testkit.Must(t, s.Failover())
	if now, err := s.Current(); err != nil || now != s.Replica {
		t.Fatalf("after the failover the master is %v, %v; want the replica", now, err)
	}
	testkit.Must(t, poll(func() error { return rdb.Set(t.Context(), "after", 1, 0).Err() }))
	testkit.Must(t, s.Master.Start()) // it becomes a replica; before Redis 7.0 after some time
	testkit.Must(t, s.Replica.WaitReplica(s.Master))
	if n := s.Replica.Client().Exists(t.Context(), "before", "after").Val(); n != 2 {
		t.Errorf("%d of 2 keys are on the new master", n)
	}
}
