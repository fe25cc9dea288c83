package redisstore_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// lockedBuffer is a buffer that a log may be written to from anywhere.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// infoCalls returns how often INFO had been called before.
func infoCalls(t *testing.T, rdb *redis.Client) int { return commandCalls(t, rdb)["info"] }

// othersCalledInfo waits until INFO was called by somebody else after infoCalls
// has returned before.
func othersCalledInfo(t *testing.T, rdb *redis.Client, before int) {
	t.Helper()
	eventually(t, func() error {
		before++ // the last time that this test called it
		if n := infoCalls(t, rdb); n <= before {
			return fmt.Errorf("INFO was called %d times, %d of them here", n, before)
		}
		return nil
	})
}

// A server that may evict keys is warned about once; one that may not is not.
func TestEvictionIsWarnedAbout(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	for _, c := range []struct {
		args []string
		warn bool
	}{
		{[]string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}, true},
		{[]string{"--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"}, true},
		{[]string{"--maxmemory", "100mb", "--maxmemory-policy", "noeviction"}, false},
		{[]string{"--maxmemory-policy", "allkeys-lru"}, false}, // without a limit
	} {
		var log lockedBuffer
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		server := redistest.NewServer(t, c.args...)
		rdb := server.Client()
		before := infoCalls(t, rdb)
		l := testkit.Limiter(t, redisstore.New(rdb, redisstore.Timeout(patience)), core.TokenBucket("r", core.PerDay(1000)))
		for range 50 {
			testkit.Allow(t, l, "k")
		}
		othersCalledInfo(t, rdb, before)
		warnings := func() int { return strings.Count(log.String(), "maxmemory_policy=") }
		if c.warn {
			eventually(t, func() error {
				if n := warnings(); n != 1 {
					return fmt.Errorf("%v: %d warnings, want 1", c.args, n)
				}
				return nil
			})
		} else if n := warnings(); n != 0 {
			t.Errorf("%v: %d warnings, want none: %s", c.args, n, log.String())
		}
	}
}
