package pipe

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/redisstore/internal/wire"
)

// A wholeness says whether the server of a client has the keys of all hash slots, so that a script may use
// keys of several. The client may be connected to a node of a Cluster, or to a proxy for several servers.
type wholeness struct {
	rdb    *redis.Client
	prefix string
	faults FaultLog

	whole  atomic.Bool
	next   atomic.Int64  // the time of the next test in Unix nanoseconds; never if one was negative
	opened atomic.Uint32 // how many connections the client had opened before the last test
}

const (
	// TestKeys is the number of keys of a test.
	TestKeys     = 16
	testTTL      = 10 * time.Second
	testInterval = time.Minute
	retryTest    = time.Second
	testScript   = "local n = 0 for i = 2, #KEYS do if redis.call('GET', KEYS[i]) then n = n + 1 end end return n"
)

// proved reports whether the server is known to be whole. It starts a test at the first call, and looks
// every testInterval whether the result is still valid.
func (w *wholeness) proved() bool {
	now, next := time.Now(), w.next.Load()
	if now.UnixNano() >= next && w.next.CompareAndSwap(next, now.Add(testInterval).UnixNano()) {
		go w.test()
	}
	return w.whole.Load()
}

// test writes some keys one by one, and reads them in a script. Behind a proxy for several servers,
// some of these keys are on another server than the script. A negative result is final: if tests
// were repeated, all keys would happen to be on one server in one of them. A positive result is valid
// until the client opens a connection, which may lead to another server. A test that fails is repeated
// after retryTest, or after testInterval if the user lacks a permission.
func (w *wholeness) test() {
	defer func() { _ = recover() }() // as in runner.run
	opened := w.rdb.PoolStats().Misses
	if w.whole.Load() && opened == w.opened.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), testInterval)
	defer cancel()
	keys, err := WriteTestKeys(ctx, w.rdb, w.prefix)
	if err == nil {
		var n int
		if n, err = CountTestKeys(ctx, w.rdb, keys); err == nil && n == TestKeys {
			w.opened.Store(opened)
			w.whole.Store(w.next.Load() != math.MaxInt64) // a script may have been rejected meanwhile
			return
		}
	}
	if err == nil || redis.HasErrorPrefix(err, "CROSSSLOT") {
		w.disprove()
		return
	}
	interval := retryTest
	if ConfigurationFault(err) != "" {
		w.faults.Log(ctx, err)
		interval = testInterval
	}
	w.next.Store(time.Now().Add(interval).UnixNano())
}

// WriteTestKeys writes TestKeys keys one by one, in random slots, and returns them after another key that it does not
// write.
func WriteTestKeys(ctx context.Context, rdb Client, prefix string) ([]any, error) {
	keys := make([]any, 1+TestKeys)
	pipe := rdb.Pipeline()
	for i := range keys {
		keys[i] = fmt.Sprintf("%s{%016x}?", prefix, rand.Uint64())
		if i > 0 {
			pipe.Do(ctx, "psetex", keys[i], testTTL.Milliseconds(), "")
		}
	}
	_, err := pipe.Exec(ctx)
	return keys, err
}

// CountTestKeys returns how many of the keys a script finds.
func CountTestKeys(ctx context.Context, rdb Client, keys []any) (int, error) {
	count := redis.NewCmd(ctx, append([]any{"eval", testScript, len(keys)}, keys...)...)
	if err := rdb.Process(ctx, count); err != nil {
		return 0, err
	}
	n, err := count.Int()
	if err != nil {
		return 0, wire.ErrReply
	}
	return n, nil
}

// disprove ends the use of keys of several slots, and the tests.
func (w *wholeness) disprove() {
	w.next.Store(math.MaxInt64)
	w.whole.Store(false)
}
