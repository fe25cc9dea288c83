package redistest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestMain(m *testing.M) { Main(m) }

// verdict is a testing.TB that notes how a helper ended the test.
type verdict struct {
	testing.TB
	skipped, failed string
}

func (v *verdict) Skipf(format string, args ...any) {
	v.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (v *verdict) Fatalf(format string, args ...any) {
	v.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// judge runs f as a test of its own and returns how that ended.
func judge(t *testing.T, f func(t testing.TB)) *verdict {
	t.Helper()
	v := &verdict{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(v)
	}()
	<-done
	return v
}

func TestWithoutRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	starts := map[string]func(t testing.TB){
		"Single":        func(t testing.TB) { Single(t) },
		"Shared":        func(t testing.TB) { Shared(t) },
		"Sentinel":      func(t testing.TB) { Sentinel(t) },
		"Cluster":       func(t testing.TB) { Cluster(t) },
		"SharedCluster": func(t testing.TB) { SharedCluster(t) },
	}
	for name, start := range starts {
		t.Run(name, func(t *testing.T) {
			t.Setenv(requireEnv, "")
			v := judge(t, start)
			if v.failed != "" || !strings.Contains(v.skipped, "apt-get install redis-server") {
				t.Errorf("without redis-server: skipped %q, failed %q; want a skip that says how to install it", v.skipped, v.failed)
			}
			t.Setenv(requireEnv, "1")
			v = judge(t, start)
			if v.skipped != "" || !strings.Contains(v.failed, "apt-get install redis-server") {
				t.Errorf("with %s=1: skipped %q, failed %q; want a failure that says how to install it", requireEnv, v.skipped, v.failed)
			}
		})
	}
}

func TestPoll(t *testing.T) {
	calls := 0
	err := poll(time.Minute, func() error {
		if calls++; calls < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil || calls != 3 {
		t.Errorf("poll: %v after %d calls, want nil after 3", err, calls)
	}
	reason := errors.New("reason")
	if err := poll(time.Minute, func() error { return stop{reason} }); err != reason {
		t.Errorf("poll after stop: %v, want %v", err, reason)
	}
	if err := poll(0, func() error { return reason }); !errors.Is(err, reason) {
		t.Errorf("poll past its limit: %v, want one that wraps %v", err, reason)
	}
}

func TestPrefix(t *testing.T) {
	a, b := Prefix(t), Prefix(t)
	if a == b || !strings.HasPrefix(a, t.Name()) {
		t.Errorf("prefixes %q and %q, want two with the name of the test", a, b)
	}
}

// ping fails the test unless rdb answers.
func ping(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Fatalf("PING: %v", err)
	}
}

// eventually fails the test unless check returns nil within the limit.
func eventually(t *testing.T, limit time.Duration, check func() error) {
	t.Helper()
	if err := poll(limit, check); err != nil {
		t.Fatal(err)
	}
}

// impatient gives up after the given time and tries once.
func impatient(d time.Duration) func(*redis.Options) {
	return func(o *redis.Options) {
		o.ReadTimeout, o.DialTimeout = d, d
		o.MaxRetries, o.DialerRetries = -1, 1
	}
}

// config reads one setting of a server.
func config(t *testing.T, s *Server, name string) string {
	t.Helper()
	var value string
	err := s.inst.ask(func(ctx context.Context, rdb *redis.Client) error {
		m, err := rdb.ConfigGet(ctx, name).Result()
		value = m[name]
		return err
	})
	if err != nil {
		t.Fatalf("CONFIG GET %s: %v", name, err)
	}
	return value
}
