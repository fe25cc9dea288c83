package localredis_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/examples/internal/demotest"
	"github.com/weir-go/weir/examples/internal/localredis"
)

func TestMain(m *testing.M) {
	if os.Getenv("WEIR_LOCALREDIS_OWNER") != "" {
		own()
	}
	m.Run()
}

// own starts a server, says which, and waits for its own end.
func own() {
	s, err := localredis.New()
	if err == nil {
		err = s.Start()
	}
	fmt.Println(s.Addr(), s.PID(), err)
	time.Sleep(time.Minute)
	os.Exit(1)
}

func answers(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func TestServer(t *testing.T) {
	s := demotest.Redis(t)
	if s.PID() != 0 || answers(s.Addr()) {
		t.Fatal("it runs before it was started")
	}
	for range 2 {
		demotest.StartRedis(t, s)
		first := s.PID()
		rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
		info, err := rdb.Info(t.Context(), "server").Result()
		rdb.Close()
		if err != nil || !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", first)) {
			t.Fatalf("process %d: %v, %s", first, err, info)
		}
		s.Stop()
		s.Stop()
		if s.PID() != 0 || answers(s.Addr()) {
			t.Fatal("it runs after it was stopped")
		}
	}
}

// A port that another server has is an error, and not that server.
func TestPortTaken(t *testing.T) {
	s := demotest.Redis(t)
	l, err := net.Listen("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("$14\r\nprocess_id:1\r\n\r\n"))
			conn.Close()
		}
	}()
	if err := s.Start(); err == nil || !strings.Contains(err.Error(), "process 1 has it") {
		t.Errorf("Start returned %v", err)
	}
}

func TestRevive(t *testing.T) {
	s := demotest.Redis(t)
	demotest.StartRedis(t, s)
	stop := s.Revive(time.Millisecond)
	defer stop()
	killed := s.PID()
	process, err := os.FindProcess(killed)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	demotest.Until(t, "it runs again", func() bool { return s.PID() != killed && s.PID() != 0 && answers(s.Addr()) })
	stop()
}

// Who is killed leaves no server behind.
func TestEndsWithItsOwner(t *testing.T) {
	demotest.NeedRedis(t)
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), "WEIR_LOCALREDIS_OWNER=1", "TMPDIR="+t.TempDir())
	stdout, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	_ = owner.Process.Kill()
	_ = owner.Wait()
	var addr string
	var pid int
	var failed string
	if _, err := fmt.Sscan(line, &addr, &pid, &failed); err != nil || failed != "<nil>" {
		t.Fatalf("the owner says %q: %v", line, err)
	}
	demotest.Until(t, "the server is gone", func() bool { return !answers(addr) })
}

func TestCluster(t *testing.T) {
	demotest.NeedRedis(t)
	c, err := localredis.StartCluster(3)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	defer rdb.Close()
	masters := 0
	for i := range 30 {
		if err := rdb.Set(t.Context(), fmt.Sprint("key", i), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range c.Nodes {
		one := redis.NewClient(&redis.Options{Addr: s.Addr()})
		if n, err := one.DBSize(t.Context()).Result(); err != nil {
			t.Fatal(err)
		} else if n > 0 {
			masters++
		}
		one.Close()
	}
	if masters != 3 {
		t.Errorf("30 keys are on %d masters, want 3", masters)
	}
	c.Close()
	for _, addr := range c.Addrs() {
		if answers(addr) {
			t.Errorf("%s runs after Close", addr)
		}
	}
}
