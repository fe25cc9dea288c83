package pipe

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/redisstore/internal/wire"
)

// A Command is sent at most once. The retries of go-redis would also repeat commands that may have run.
type Command struct{ *redis.Cmd }

// NoRetry makes go-redis follow redirections but not retry the command.
func (Command) NoRetry() bool { return true }

// A Client is a client of go-redis.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// A runner executes jobs on a client.
type runner struct {
	rdb Client
	*Counters
}

// numbers counts the round trips of all Pipes, see SharedError.
var numbers atomic.Uint64

// run executes jobs in one round trip and sets their outcomes. Scripts that the server does not
// know take a second round trip, with their source, and so does the first script on a server that refuses TIME.
func (r runner) run(ctx context.Context, jobs []*Job) {
	r.Running.Add(1)
	r.Requests.Add(uint64(len(jobs)))
	r.RoundTrips.Add(1)
	number := numbers.Add(1)
	requests := make([]*wire.Request, len(jobs))
	for i, j := range jobs {
		if requests[i] = &j.Request; len(jobs) > 1 {
			j.roundTrip.Store(number)
		}
		if !j.Since.IsZero() && j.Clock == "" { // the time of a test passes only as the test says
			j.Wait(time.Since(j.Since))
		}
	}
	defer func() {
		// A malformed reply or a hook can make the client panic.
		if p := recover(); p != nil {
			for _, j := range jobs {
				j.Err = fmt.Errorf("the client panicked: %v", p)
			}
		}
		r.Running.Add(-1)
	}()
	cmds := make([]Command, 0, 4)
	for batches := wire.NewBatches(requests, r.Keyed.Load()); len(batches) > 0; {
		cmds = r.send(ctx, batches, cmds[:0])
		again := batches[:0]
		for i, b := range batches {
			switch err := cmds[i].Err(); {
			case err != nil && noScript(err) && b.UseSource():
				again = append(again, b)
			case err != nil && ConfigurationFault(err) == "" && b.UseKey(err):
				r.Keyed.Store(true)
				again = append(again, b)
			default:
				if err != nil && b.UsesKey() { // perhaps another server, which permits TIME
					r.Keyed.Store(false)
				}
				r.Corrupt.Add(b.SetOutcomes(cmds[i].Val(), err))
			}
		}
		r.Retried.Add(uint64(len(again)))
		batches = again
	}
}

// send executes the scripts of batches in one round trip, and adds their commands to cmds.
func (r runner) send(ctx context.Context, batches []wire.Batch, cmds []Command) []Command {
	for i := range batches {
		cmds = append(cmds, Command{redis.NewCmd(ctx, batches[i].Args...)})
	}
	if len(cmds) == 1 {
		_ = r.rdb.Process(ctx, cmds[0])
		return cmds
	}
	pipe := r.rdb.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd)
	}
	_, _ = pipe.Exec(ctx)
	return cmds
}

// direct sends each job on a connection of its own of the client's pool. It does so in a
// separate goroutine, because go-redis by default ignores the deadline of a context, and with
// ContextTimeoutEnabled closes the connection on which a deadline passes. When the caller leaves, a
// job that waits for a connection is cancelled. The goroutine of a job that was sent ends
// with the reply or the client's ReadTimeout, so there are at most as many such goroutines as
// connections in the pool.
type direct struct {
	runner
	idleCheck *idleCheck // starts when a deadline has passed
}

func (d direct) Send(j *Job) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(j.ctx))
	defer cancel() // with the reply, or when the caller leaves
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.run(ctx, []*Job{j})
		j.finish()
	}()
	if _, ended := wait(j, done); ended != nil {
		if ended == context.DeadlineExceeded {
			d.idleCheck.start()
		}
		if j.leave() {
			return ended
		}
		<-done
	}
	return j.outcome()
}

func (direct) Length() int { return 0 }
