package pipe

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A Server executes jobs on the client of one server.
type Server struct {
	backlog
	rdb    *redis.Client
	runner runner // ignores the deadlines of contexts, so that a slow server does not lose its connections
	// slot returns the slot of a job with these keys. It is nil if the server has no slots.
	slot func(tag string) string

	whole *wholeness // nil if the server has slots
}

// newServer returns a Server for a client. Either slot is nil, or whole is, for a node of a Cluster.
func newServer(rdb *redis.Client, c Config, slot func(tag string) string, whole *wholeness, n *Counters) *Server {
	s := &Server{rdb: rdb, runner: runner{rdb, n}, slot: slot, whole: whole}
	s.backlog.run, s.backlog.limit = s.Run, max(1, rdb.Options().PoolSize/2)
	s.backlog.idleCheck = newIdleCheck(rdb, c.Timeout, s.forgetLate)
	if rdb.Options().Limiter == nil { // which does not know the deadline, and may block
		s.backlog.runOwn = runner{newStrict(rdb), n}.run
	}
	return s
}

// Run executes jobs in one round trip and sets their outcomes.
func (s *Server) Run(ctx context.Context, jobs []*Job) {
	merged := len(jobs) > 1
	if merged && (s.slot != nil || !s.whole.proved()) {
		for _, j := range jobs {
			j.Slot = s.slotOf(j.Keys[0])
		}
	}
	s.runner.run(ctx, jobs)
	if !merged || s.slot != nil {
		return
	}
	for _, j := range jobs {
		if j.Err != nil && redis.HasErrorPrefix(j.Err, "CROSSSLOT") {
			s.whole.disprove()
			j.Err = fmt.Errorf("%w: %w", errNotMerged, j.Err)
		}
	}
}

// errNotMerged proves that a job was not executed.
var errNotMerged = errors.New("the server rejected a script with keys of different hash slots")

// slotOf returns the slot of a key. Without hash slots, that is its hash tag: a proxy for several
// servers sends a script to the server of its first key.
func (s *Server) slotOf(key string) string {
	_, tag, _ := strings.Cut(key, "{")
	tag, _, _ = strings.Cut(tag, "}")
	if s.slot != nil {
		return s.slot(tag)
	}
	return tag
}
