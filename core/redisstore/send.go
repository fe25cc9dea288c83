package redisstore

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// A command is an EVALSHA or EVAL that go-redis sends at most once. The retries of go-redis would
// also repeat commands that may have run.
type command struct{ *redis.Cmd }

// NoRetry makes go-redis follow redirections but not retry the command.
func (command) NoRetry() bool { return true }

// A runner executes requests on a client.
type runner struct {
	rdb client
	*counters
}

// A client is a client of go-redis.
type client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// numbers counts the round trips of all Stores, see Error.RoundTrip.
var numbers atomic.Uint64

// run executes requests in one round trip and sets their outcomes. Scripts that the server does not
// know take a second round trip, with their source.
func (s runner) run(ctx context.Context, requests []*request) {
	s.running.Add(1)
	s.requests.Add(uint64(len(requests)))
	s.roundTrips.Add(1)
	if number := numbers.Add(1); len(requests) > 1 {
		for _, r := range requests {
			r.roundTrip.Store(number)
		}
	}
	defer func() {
		// A malformed reply or a hook can make the client panic.
		if p := recover(); p != nil {
			for _, r := range requests {
				r.err = fmt.Errorf("the client panicked: %v", p)
			}
		}
		s.running.Add(-1)
	}()
	for _, r := range requests {
		r.noteWait()
	}
	for batches := newBatches(requests); len(batches) > 0; {
		s.send(ctx, batches)
		unknown := batches[:0]
		for _, b := range batches {
			if err := b.cmd.Err(); err != nil && noScript(err) && b.useSource() {
				s.retried.Add(1)
				unknown = append(unknown, b)
			} else {
				s.corrupt.Add(b.setOutcomes(b.cmd.Val(), b.cmd.Err()))
			}
		}
		batches = unknown
	}
}

// send executes the scripts of batches in one round trip.
func (s runner) send(ctx context.Context, batches []batch) {
	for i := range batches {
		batches[i].cmd = command{redis.NewCmd(ctx, batches[i].args...)}
	}
	if len(batches) == 1 {
		_ = s.rdb.Process(ctx, batches[0].cmd)
		return
	}
	pipe := s.rdb.Pipeline()
	for i := range batches {
		_ = pipe.Process(ctx, batches[i].cmd)
	}
	_, _ = pipe.Exec(ctx)
}

// direct sends each request on a connection of its own of the client's pool. It does so in a
// separate goroutine, because go-redis by default ignores the deadline of a context, and with
// ContextTimeoutEnabled closes the connection on which a deadline passes. When the caller leaves, a
// request that waits for a connection is cancelled. The goroutine of a request that was sent ends
// with the reply or the client's ReadTimeout, so there are at most as many such goroutines as
// connections in the pool.
type direct struct {
	runner
	idleCheck *idleCheck // starts when a deadline has passed
}

func (s direct) send(d *deadline, r *request) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(d.ctx))
	defer cancel() // with the reply, or when the caller leaves
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.run(ctx, []*request{r})
		r.finish()
	}()
	if _, ended := wait(d, done); ended != nil {
		if ended == context.DeadlineExceeded {
			s.idleCheck.start()
		}
		if r.leave() {
			return ended
		}
		<-done
	}
	return d.outcome(r)
}

func (direct) length() int { return 0 }
