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
	// strict closes a connection on which the deadline of a context passes. patient ignores the
	// deadlines of contexts, so that a slow server does not lose its connections.
	strict, patient runner
	// slot returns the slot of a request with these keys. It is nil if the server has no slots.
	slot func(tag string) string

	prefix   string
	merges   atomic.Bool  // a script may use keys of different slots
	nextTest atomic.Int64 // of merges, in Unix nanoseconds; never if a test was negative
}

// newServer returns a server for a client. slot is not nil for a node of a Cluster.
func newServer(rdb *redis.Client, prefix string, slot func(tag string) string, n *counters) *server {
	s := &server{strict: runner{newStrict(rdb), n}, patient: runner{rdb, n}, slot: slot, prefix: prefix}
	s.queue.run = s.run
	s.queue.detached = rdb.Options().Limiter != nil // it does not know the deadline, and may block
	return s
}

// run executes requests in one round trip and sets their outcomes.
func (s *server) run(ctx context.Context, strict bool, requests []*request) {
	merged := len(requests) > 1
	if merged && (s.slot != nil || !s.anySlots()) {
		for _, r := range requests {
			r.slot = s.slotOf(r.keys[0])
		}
	}
	if strict {
		s.strict.run(ctx, requests)
	} else {
		s.patient.run(ctx, requests)
	}
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
	testScript   = "local n = 0 for i = 2, #KEYS do if redis.call('GET', KEYS[i]) then n = n + 1 end end return n"
)

// anySlots reports whether a script may use keys of different slots, as far as it is known. It
// starts a test of that at the first call, and again after testInterval.
func (s *server) anySlots() bool {
	now, next := time.Now(), s.nextTest.Load()
	if now.UnixNano() >= next && s.nextTest.CompareAndSwap(next, now.Add(testInterval).UnixNano()) {
		go s.test()
	}
	return s.merges.Load()
}

// test writes some keys one by one, and reads them in a script. Behind a proxy for several servers,
// some of these keys are on another server than the script. A negative result is final: if tests
// were repeated, all keys would happen to be on one server in one of them.
func (s *server) test() {
	defer func() { _ = recover() }() // as in runner.run
	ctx, cancel := context.WithTimeout(context.Background(), testInterval)
	defer cancel()
	keys := make([]any, 1+testKeys)
	pipe := s.patient.rdb.Pipeline()
	for i := range keys {
		keys[i] = fmt.Sprintf("%s{%016x}?", s.prefix, rand.Uint64())
		if i > 0 {
			pipe.Do(ctx, "psetex", keys[i], testTTL.Milliseconds(), "")
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return
	}
	eval := redis.NewCmd(ctx, append([]any{"eval", testScript, len(keys)}, keys...)...)
	_ = s.patient.rdb.Process(ctx, eval)
	switch n, err := eval.Int(); {
	case err == nil && n == testKeys:
		s.merges.Store(true)
	case err == nil, redis.HasErrorPrefix(err, "CROSSSLOT"):
		s.noMerges()
	}
}

// noMerges ends the use of keys of different slots, and the tests.
func (s *server) noMerges() {
	s.nextTest.Store(math.MaxInt64)
	s.merges.Store(false)
}
