package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A server executes requests on the client of one server.
type server struct {
	backlog
	rdb    *redis.Client
	runner runner // ignores the deadlines of contexts, so that a slow server does not lose its connections
	// slot returns the slot of a request with these keys. It is nil if the server has no slots.
	slot func(tag string) string

	whole *wholeness // nil if the server has slots
}

// newServer returns a server for a client. Either slot is nil, or whole is, for a node of a Cluster.
func newServer(rdb *redis.Client, c config, slot func(tag string) string, whole *wholeness, n *counters) *server {
	s := &server{rdb: rdb, runner: runner{rdb, n}, slot: slot, whole: whole}
	s.backlog.run, s.backlog.limit = s.run, max(1, rdb.Options().PoolSize/2)
	s.backlog.idleCheck = newIdleCheck(rdb, c.timeout, s.forgetLate)
	if rdb.Options().Limiter == nil { // which does not know the deadline, and may block
		s.backlog.runOwn = runner{newStrict(rdb), n}.run
	}
	return s
}

// run executes requests in one round trip and sets their outcomes.
func (s *server) run(ctx context.Context, requests []*request) {
	merged := len(requests) > 1
	if merged && (s.slot != nil || !s.whole.proved()) {
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
			s.whole.disprove()
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
