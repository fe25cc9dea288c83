package redisstore_test

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
	"github.com/weir-go/weir/core/storetest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// patience is longer than any hiccup of a busy machine.
const patience = 20 * time.Second

var prefixes atomic.Int64

// prefix gives every test its own keys on a shared server.
func prefix() redisstore.Option {
	return redisstore.Prefix(fmt.Sprintf("test%d:", prefixes.Add(1)))
}

// harness is a Store on rdb with a clock of its own.
func harness(rdb redis.UniversalClient, opts ...redisstore.Option) *storetest.Harness {
	var clock storetest.Clock
	opts = append([]redisstore.Option{prefix(), redisstore.Timeout(patience), redisstore.Clock(func() string {
		return strconv.FormatInt(clock.Micros(), 10)
	})}, opts...)
	h := clock.Harness(redisstore.New(rdb, opts...))
	// The sorted set of a log keeps events that left a shorter period, and the hash of a
	// sliding window has counts instead of times.
	h.FixedPeriods = true
	return h
}

// The suite on a Pipelined store is in TestACL_DocumentedUser.
func TestConformance(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	storetest.Run(t, func(*testing.T) *storetest.Harness { return harness(rdb) })
}

func TestConformanceCluster(t *testing.T) {
	t.Parallel()
	rdb := redistest.SharedCluster(t).Client()
	storetest.Run(t, func(*testing.T) *storetest.Harness {
		h := harness(rdb)
		h.GivesBack = true
		return h
	})
}
