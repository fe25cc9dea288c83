package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A server executes requests on the client of one server.
type server struct {
	queue
	rdb    *redis.Client
	runner runner // ignores the deadlines of contexts, so that a slow server does not lose its connections
	// slot returns the slot of a request with these keys. It is nil if the server has no slots.
	slot func(tag string) string

	prefix   string
	merges   atomic.Bool   // a script may use keys of different slots
	nextTest atomic.Int64  // of merges, in Unix nanoseconds; never if a test was negative
	opened   atomic.Uint32 // how many connections the client had opened before the last test
}

// newServer returns a server for a client. slot is not nil for a node of a Cluster.
func newServer(rdb *redis.Client, prefix string, slot func(tag string) string, n *counters) *server {
	s := &server{rdb: rdb, runner: runner{rdb, n}, slot: slot, prefix: prefix}
	s.queue.run, s.queue.limit = s.run, max(1, rdb.Options().PoolSize/2)
	if rdb.Options().Limiter == nil { // which does not know the deadline, and may block
		s.queue.runOwn = runner{newStrict(rdb), n}.run
	}
	return s
}

// run executes requests in one round trip and sets their outcomes.
func (s *server) run(ctx context.Context, requests []*request) {
	merged := len(requests) > 1
	if merged && (s.slot != nil || !s.anySlots()) {
		for _, r := range requests {
			r.slot = s.slotOf(r.keys[0])
		}
	}
	s.runner.run(ctx, requests)
	if !merged || s.slot != nil {
		return
	}
	for _, r := range requests {
		if r.err != nil && redis.HasErrorPrefix(r.err, "CROSSSLOT") {
			s.noMerges()
			r.err = fmt.Errorf("%w: %w", errNotMerged, r.err)
		}
	}
}

// errNotMerged proves that a request was not executed.
var errNotMerged = errors.New("the server rejected a script with keys of different hash slots")

// slotOf returns the slot of a key. Without hash slots, that is its hash tag: a proxy for several
// servers sends a script to the server of its first key.
func (s *server) slotOf(key string) string {
	_, tag, _ := strings.Cut(key, "{")
	tag, _, _ = strings.Cut(tag, "}")
	if s.slot != nil {
		return s.slot(tag)
	}
	return tag
}

const (
	testKeys     = 16
	testTTL      = 10 * time.Second
	testInterval = time.Minute
	retryTest    = time.Second
	testScript   = "local n = 0 for i = 2, #KEYS do if redis.call('GET', KEYS[i]) then n = n + 1 end end return n"
)

// anySlots reports whether a script may use keys of different slots, as far as it is known. It
// starts a test of that at the first call, and looks every testInterval whether the result is still
// valid.
func (s *server) anySlots() bool {
	now, next := time.Now(), s.nextTest.Load()
	if now.UnixNano() >= next && s.nextTest.CompareAndSwap(next, now.Add(testInterval).UnixNano()) {
		go s.test()
	}
	return s.merges.Load()
}

// test writes some keys one by one, and reads them in a script. Behind a proxy for several servers,
// some of these keys are on another server than the script. A negative result is final: if tests
// were repeated, all keys would happen to be on one server in one of them. A positive result is valid
// until the client opens a connection, which may lead to another server. A test that fails is repeated
// after retryTest.
func (s *server) test() {
	defer func() { _ = recover() }() // as in runner.run
	opened := s.rdb.PoolStats().Misses
	if s.merges.Load() && opened == s.opened.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), testInterval)
	defer cancel()
	keys := make([]any, 1+testKeys)
	pipe := s.rdb.Pipeline()
	for i := range keys {
		keys[i] = fmt.Sprintf("%s{%016x}?", s.prefix, rand.Uint64())
		if i > 0 {
			pipe.Do(ctx, "psetex", keys[i], testTTL.Milliseconds(), "")
		}
	}
	_, err := pipe.Exec(ctx)
	if err == nil {
		eval := redis.NewCmd(ctx, append([]any{"eval", testScript, len(keys)}, keys...)...)
		_ = s.rdb.Process(ctx, eval)
		var n int
		if n, err = eval.Int(); err == nil && n == testKeys {
			s.opened.Store(opened)
			s.merges.Store(s.nextTest.Load() != math.MaxInt64) // a script may have been rejected meanwhile
			return
		}
	}
	if err == nil || redis.HasErrorPrefix(err, "CROSSSLOT") {
		s.noMerges()
	} else {
		s.nextTest.Store(time.Now().Add(retryTest).UnixNano())
	}
}

// noMerges ends the use of keys of different slots, and the tests.
func (s *server) noMerges() {
	s.nextTest.Store(math.MaxInt64)
	s.merges.Store(false)
}
