package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/weir-go/weir/core/redisstore/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv(appEnv) != "" {
		appMain()
		return
	}
	logging.Disable()
	m.Run()
}

func TestRun_Guarantees(t *testing.T) {
	t.Parallel()
	redistest.Require(t)
	var out strings.Builder
	if err := run(t.Context(), &out, []string{"-rate", "400", "-only", "Redis killed"}); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) < 3 || !strings.HasPrefix(lines[2], "| Redis killed, started again | ") || strings.Count(lines[2], "|") != strings.Count(lines[0], "|") {
		t.Errorf("got the table\n%s", &out)
	}
	if !strings.Contains(out.String(), "An idle instance had ") {
		t.Errorf("got no line about an idle instance:\n%s", &out)
	}
}

func TestRun_BrokenApplication(t *testing.T) {
	redistest.Require(t)
	for _, c := range []struct{ wrong, want string }{
		{noShare, "at most"},
		{noFailover, "requests failed"},
	} {
		t.Run(c.wrong, func(t *testing.T) {
			t.Parallel()
			err := run(t.Context(), io.Discard, []string{"-rate", "400", "-only", "Redis killed", "-break", c.wrong})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestRun_InvalidArguments(t *testing.T) {
	redistest.Require(t)
	for _, args := range [][]string{
		{"-rate", "399"}, {"-rate", "5001"}, {"-break", "x"}, {"-only", "("}, {"-only", "no such fault"}, {"-only", "one master"},
	} {
		if err := run(t.Context(), io.Discard, args); err == nil {
			t.Errorf("%q: got no error", args)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ended, io.Discard, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run: got %v, want %v", err, context.Canceled)
	}
}

// close ends all processes, including a frozen server and a killed instance.
func TestFleet_Close(t *testing.T) {
	t.Parallel()
	redistest.Require(t)
	for _, onCluster := range []bool{false, true} {
		f, err := startFleet(onCluster, "")
		if err != nil {
			t.Fatal(err)
		}
		var pids []int
		for _, s := range f.servers {
			pids = append(pids, s.PID())
		}
		for _, i := range f.all {
			pids = append(pids, i.child.cmd.Process.Pid)
		}
		if err := f.servers[0].Pause(); err != nil {
			t.Error(err)
		}
		if err := killInstance(f); err != nil {
			t.Error(err)
		}
		f.close()
		for _, pid := range pids {
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("process %d: got %v, want an ended process", pid, err)
			}
		}
	}
}
