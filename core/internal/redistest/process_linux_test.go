package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// The kernel ties a parent death signal to a thread. A server must not die with
// the thread of whoever happened to ask for it.
func TestServerOutlivesThread(t *testing.T) {
	servers, threads := make(chan *Server), make(chan int)
	ask := func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if syscall.Gettid() == os.Getpid() {
			threads <- 0 // the main thread does not end
			runtime.Goexit()
		}
		threads <- syscall.Gettid()
		servers <- Single(t)
	}
	go ask()
	tid := <-threads
	if tid == 0 {
		go ask()
		tid = <-threads
	}
	s := <-servers
	eventually(t, startTimeout, func() error {
		if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("thread %d is still there", tid)
		}
		return nil
	})
	ping(t, s.Client())
}

// No server outlives a test process that is killed; this test is its own victim.
func TestServersDieWithProcess(t *testing.T) {
	const role = "REDISTEST_VICTIM"
	if os.Getenv(role) != "" {
		fmt.Printf("\nserver %d\nserver %d\n", Shared(t).PID(), Single(t).PID())
		select {}
	}
	binary(t)
	t.Setenv("TMPDIR", t.TempDir()) // nobody else tidies up after it
	pids := runVictim(t, role, func(victim *exec.Cmd) { _ = victim.Process.Kill() }, 2)
	for _, pid := range pids {
		eventually(t, startTimeout, func() error { return dead(pid) })
	}
}

// A test process that ends by itself stops what is shared and tidies up.
func TestMainStopsShared(t *testing.T) {
	const role = "REDISTEST_ENDING"
	if os.Getenv(role) != "" {
		fmt.Printf("\nserver %d\n", Shared(t).PID())
		return
	}
	binary(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	for _, pid := range runVictim(t, role, func(*exec.Cmd) {}, 1) {
		if err := dead(pid); err != nil {
			t.Error(err)
		}
	}
	left, err := os.ReadDir(tmp)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		if strings.HasPrefix(entry.Name(), "redistest") {
			t.Errorf("%s is left behind", entry.Name())
		}
	}
}

// runVictim runs this very test in another process with role set, reads the
// process ids of n servers from it, ends it, and returns them.
func runVictim(t *testing.T, role string, end func(*exec.Cmd), n int) (pids []int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	victim := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.timeout=30s")
	victim.Env = append(os.Environ(), role+"=1", requireEnv+"=1")
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); len(pids) < n && lines.Scan(); {
		var pid int
		if _, err := fmt.Sscanf(lines.Text(), "server %d", &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	end(victim)
	_ = victim.Wait()
	if len(pids) != n {
		t.Fatalf("the other process named %d servers, want %d", len(pids), n)
	}
	return pids
}

// dead is nil if there is no such process, or only its unreaped remains.
func dead(pid int) error {
	state, err := processState(pid)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || state == 'Z' {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("process %d is in state %c", pid, state)
}
