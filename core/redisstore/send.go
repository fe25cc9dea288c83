package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A command is an EVALSHA or EVAL that go-redis sends at most once: its own
// retries also repeat what may have run.
type command struct{ *redis.Cmd }

// NoRetry keeps go-redis from repeating the command. Redirections are followed.
func (command) NoRetry() bool { return true }

// A sender sends a command and waits for the reply. When patience ends first,
// the command must not be touched any more: it may still be under way.
type sender interface {
	send(p *patience, cmd command) error
}

// direct gives every command a connection of the client's pool. It runs beside
// the caller: go-redis gives up a connection on which a deadline passed, and
// looks at deadlines only if the client was configured to. When the caller
// leaves, a command that still waits for a connection is withdrawn; one that was
// sent is left to its reply or to the client's ReadTimeout. So there are never
// more of those than the pool has connections.
type direct struct{ rdb redis.UniversalClient }

func (d direct) send(p *patience, cmd command) error {
	f := &flight{Context: p.ctx, left: make(chan struct{}), done: make(chan error, 1)}
	go f.run(d.rdb, cmd)
	err, over := wait(p, f.done)
	if over != nil {
		close(f.left)
		return over
	}
	return err
}

// A flight is a command under way, and its context: it has the values of the
// caller's, and ends only when the caller leaves.
type flight struct {
	context.Context
	left chan struct{}
	done chan error
}

// run sends cmd. A panic of the client, which an absurd reply or a hook can
// cause, is an error, as it is in the automatic pipeline: nobody could recover it
// on this goroutine.
func (f *flight) run(rdb redis.UniversalClient, cmd command) {
	var err error
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the client panicked: %v", r)
		}
		f.done <- err
	}()
	err = rdb.Process(f, cmd)
}

// Deadline implements context.Context: there is none.
func (f *flight) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (f *flight) Done() <-chan struct{} { return f.left }

// Err implements context.Context.
func (f *flight) Err() error {
	select {
	case <-f.left:
		return context.Canceled
	default:
		return nil
	}
}

// A pipeline sends through the client's asynchronous automatic pipeline, of which there
// is one for each client: the first caller's options apply. The client closes the
// pipeline with itself.
type pipeline struct {
	options *redis.AutoPipelineOptions
	open    func(*redis.AutoPipelineOptions) (*redis.AutoPipeliner, error)
	auto    atomic.Pointer[redis.AutoPipeliner]
}

const (
	// maxQueued bounds the commands that wait for a Redis that does not answer.
	maxQueued = 10_000
	// Decisions need no order among each other, so several batches may be under
	// way: with one, a connection that went silent would hold up everything behind
	// it until the client's ReadTimeout. Measured, 64 callers on one key: 15.1 us a
	// decision with one batch, 11.1 us with eight.
	maxBatches = 8
	// clusterShards are ranges of slots with a queue each. With go-redis's few, a
	// node that is down would hold up the decisions of others that share a range.
	clusterShards = 64
)

var (
	errForeignPipeline = errors.New("the application uses the automatic pipeline of the client (AsyncAutoPipeline), " +
		"with other options than a limiter needs: give the limiter a client of its own")
	// errPipelineClosed is the error of a command that was not sent.
	errPipelineClosed = errors.New("the application has closed the automatic pipeline of the client")
)

func newPipeline(rdb redis.UniversalClient) *pipeline {
	pl := &pipeline{options: redis.DefaultAutoPipelineOptions()}
	pl.options.MaxQueuedCommands = maxQueued
	pl.options.Unordered, pl.options.MaxConcurrentBatches = true, maxBatches
	switch c := rdb.(type) {
	case *redis.Client:
		pl.open = c.AsyncAutoPipelineWithOptions
	case *redis.ClusterClient:
		pl.options.NumShards = clusterShards
		pl.open = c.AsyncAutoPipelineWithOptions
	default:
		panic("redisstore: Pipelined: the client is neither a *redis.Client nor a *redis.ClusterClient")
	}
	if _, err := pl.renew(); err != nil {
		panic("redisstore: Pipelined: " + err.Error())
	}
	return pl
}

// renew opens the pipeline of the client.
func (pl *pipeline) renew() (*redis.AutoPipeliner, error) {
	auto, err := pl.open(pl.options)
	if err != nil {
		return nil, err
	}
	if got, want := auto.Config(), pl.options; got.MaxBatchSize != want.MaxBatchSize || got.MaxBatchBytes != want.MaxBatchBytes ||
		got.MaxConcurrentBatches != want.MaxConcurrentBatches || got.Unordered != want.Unordered || got.FullDuplex != want.FullDuplex ||
		got.NumShards != want.NumShards || got.MaxFlushDelay != want.MaxFlushDelay || got.AdaptiveDelay != want.AdaptiveDelay ||
		got.MaxQueuedCommands != want.MaxQueuedCommands {
		return nil, errForeignPipeline
	}
	pl.auto.Store(auto)
	return auto, nil
}

func (pl *pipeline) send(p *patience, cmd command) error {
	if p.over != nil {
		return p.over
	}
	auto := pl.auto.Load()
	if auto.IsClosed() { // by the application, or with the client
		var err error
		if auto, err = pl.renew(); err != nil {
			return err
		}
	}
	waiting, cancel := context.WithDeadline(p.ctx, p.deadline)
	defer cancel()
	err := auto.Submit(context.WithoutCancel(p.ctx), cmd).WaitContext(waiting)
	switch {
	case err == nil:
		return nil
	case waiting.Err() != nil:
		p.over = waiting.Err()
		return p.over
	case errors.Is(err, redis.ErrClosed) && auto.IsClosed():
		return errPipelineClosed // after the check above
	}
	return err
}
