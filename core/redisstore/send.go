package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// A command is an EVALSHA or EVAL that go-redis sends at most once: its own
// retries also repeat what may have run.
type command struct{ *redis.IntSliceCmd }

// NoRetry keeps go-redis from repeating the command. Redirections are followed.
func (command) NoRetry() bool { return true }

// A sender sends a command and waits for the reply until ctx is done. After an
// error of ctx the command must not be touched: it may still be under way.
type sender interface {
	send(ctx context.Context, cmd command) error
}

// direct gives every command a connection of the client's pool. It runs beside
// the caller: go-redis gives up a connection on which a deadline passed, and
// looks at deadlines only if the client was configured to. When the caller
// leaves, a command that still waits for a connection is withdrawn; one that was
// sent is left to its reply or to the client's ReadTimeout. So there are never
// more of those than the pool has connections.
type direct struct{ rdb redis.UniversalClient }

func (d direct) send(ctx context.Context, cmd command) error {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			o.panicked = recover()
			done <- o
		}()
		o.err = d.rdb.Process(running, cmd)
	}()
	select {
	case o := <-done:
		if o.panicked != nil {
			panic(o.panicked) // of a hook of the client: it belongs to the caller
		}
		return o.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

type outcome struct {
	err      error
	panicked any
}

// pipeline sends through the client's automatic pipeline. The client owns it
// and closes it with itself.
type pipeline struct{ auto *redis.AutoPipeliner }

// maxQueued bounds the commands that wait for a Redis that does not answer.
const maxQueued = 10_000

func newPipeline(rdb redis.UniversalClient) pipeline {
	options := redis.DefaultAutoPipelineOptions()
	options.MaxQueuedCommands = maxQueued
	var auto *redis.AutoPipeliner
	var err error
	switch c := rdb.(type) {
	case *redis.Client:
		auto, err = c.AsyncAutoPipelineWithOptions(options)
	case *redis.ClusterClient:
		auto, err = c.AsyncAutoPipelineWithOptions(options)
	default:
		panic("redisstore: Pipelined: the client is neither a *redis.Client nor a *redis.ClusterClient")
	}
	if err != nil {
		panic("redisstore: Pipelined: " + err.Error())
	}
	return pipeline{auto}
}

func (p pipeline) send(ctx context.Context, cmd command) error {
	return p.auto.Submit(context.WithoutCancel(ctx), cmd).WaitContext(ctx)
}
