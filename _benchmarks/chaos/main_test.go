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

// The promises are kept, and the table tells about it.
func TestPromises(t *testing.T) {
	t.Parallel()
	redistest.Require(t)
	var out strings.Builder
	if err := run(t.Context(), &out, []string{"-only", "Redis killed"}); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) < 3 || !strings.HasPrefix(lines[2], "| Redis killed, started again | ") || strings.Count(lines[2], "|") != strings.Count(lines[0], "|") {
		t.Errorf("the table is\n%s", &out)
	}
	if !strings.Contains(out.String(), "An idle instance had ") {
		t.Errorf("nothing is said about what is left:\n%s", &out)
	}
}

// An application that breaks the promises is found.
func TestBrokenApplications(t *testing.T) {
	redistest.Require(t)
	for _, c := range []struct{ wrong, want string }{
		{noShare, "has admitted"},
		{noFailover, "requests failed"},
	} {
		t.Run(c.wrong, func(t *testing.T) {
			t.Parallel()
			err := run(t.Context(), io.Discard, []string{"-only", "Redis killed", "-break", c.wrong})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the suite says %v", err)
			}
		})
	}
}

func TestArguments(t *testing.T) {
	redistest.Require(t)
	for _, args := range [][]string{
		{"-rate", "399"}, {"-rate", "5001"}, {"-break", "x"}, {"-only", "("}, {"-only", "no such fault"}, {"-only", "one master"},
	} {
		if err := run(t.Context(), io.Discard, args); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ended, io.Discard, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a run that was ended says %v", err)
	}
}

// Whatever is started is ended, frozen or not.
func TestEverythingEnds(t *testing.T) {
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
				t.Errorf("process %d is still there: %v", pid, err)
			}
		}
	}
}
