package resilient_test

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/redisstore/resilient"
	"github.com/weir-go/weir/internal/testkit"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// unhurried is a timeout that a busy machine keeps.
const unhurried = 10 * time.Second

// wide admits every event of a test.
var wide = core.TokenBucket("wide", core.PerSecond(1_000_000))

// newStore returns a Store with Instances(1), so that it logs no warning, unless opts contain
// another number.
func newStore(t *testing.T, rdb redis.UniversalClient, opts ...resilient.Option) *resilient.Store {
	s := resilient.New(rdb, "test", append([]resilient.Option{resilient.Instances(1)}, opts...)...)
	t.Cleanup(func() { s.Close() })
	return s
}

// absent returns the client of a Redis that cannot be reached.
func absent(t *testing.T) *redis.Client {
	rdb := down()
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// dialOnce makes a client report at once that the server cannot be reached.
func dialOnce(o *redis.Options) { o.DialerRetries = 1 }

// until makes decisions of l, a limiter of wide on s, until s is in the state want.
func until(t *testing.T, s *resilient.Store, l *core.Limiter, want failover.State) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); s.State() != want; <-tick.C {
		if time.Since(begun) > time.Minute {
			t.Fatalf("the state after a minute: got %v, want %v; %+v", s.State(), want, s.Stats())
		}
		testkit.Admit(t, l, "until", 1)
	}
}

// captureLog returns a buffer with the records that slog writes until the test ends.
func captureLog(t *testing.T) *bytes.Buffer {
	log, before := new(bytes.Buffer), slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return log
}
