package resilient

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/denycache"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/internal/processes"
	"github.com/weir-go/weir/core/observe"
)

// Over returns a Store whose primary is not a redisstore, for the conformance suite. Its cached
// denials end at once, because the clock of the suite is that of the primary, and its backup keeps no states. Its heartbeats
// go to rdb.
func Over(primary driver.Store, rdb redis.UniversalClient) *Store {
	f := failover.New(primary, failover.FailClosed, failover.Deadline(time.Minute))
	cache := denycache.New(f, denycache.MaxAge(1))
	s := &Store{failover: f, cache: cache, observed: observe.New(cache), cancel: func() {}}
	s.counter = processes.New(processes.NewRecord(do(rdb), "test:", "test"), processes.Config{Log: s.Logger, Unknown: func() {}, Refused: change})
	return s
}

// AwaitCheck waits until the check of Redis has ended.
func (s *Store) AwaitCheck() { s.checks.Wait() }

// Do is the function do.
func Do(rdb redis.UniversalClient) func(ctx context.Context, args ...any) (any, error) {
	return do(rdb)
}

// Once is the function once.
func Once(rdb redis.UniversalClient) func(ctx context.Context, args ...any) (any, error) {
	return once(rdb)
}

// Figures returns the decisions that a heartbeat would tell.
func (s *Store) Figures() processes.Figures { return s.counter.Figures() }
