package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// A command is an EVALSHA or EVAL that go-redis sends at most once. The retries of go-redis would
// also repeat commands that may have run.
type command struct{ *redis.Cmd }

// NoRetry makes go-redis follow redirections but not retry the command.
func (command) NoRetry() bool { return true }

// A sender sends a command and waits for the reply. If d ends first, the command may still be in
// use, and the caller must not access it.
type sender interface {
	send(d *deadline, cmd command) error
}

// direct sends each command on a connection of the client's pool. It does so in a separate
// goroutine, because go-redis by default ignores the deadline of a context, and with
// ContextTimeoutEnabled closes the connection on which a deadline passes. When the caller leaves, a
// command that waits for a connection is cancelled. The goroutine of a command that was sent ends
// with the reply or the client's ReadTimeout, so there are at most as many such goroutines as
// connections in the pool.
type direct struct{ rdb redis.UniversalClient }

func (s direct) send(d *deadline, cmd command) error {
	ctx := &detached{Context: d.ctx, left: make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		var err error
		// A malformed reply or a hook can make the client panic. The caller could not recover a
		// panic of this goroutine, so it becomes an error, as in the automatic pipeline.
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("the client panicked: %v", r)
			}
			done <- err
		}()
		err = s.rdb.Process(ctx, cmd)
	}()
	err, ended := wait(d, done)
	if ended != nil {
		close(ctx.left)
		return ended
	}
	return err
}

// A detached context has the values of the caller's context and no deadline. It ends when left is
// closed, because the caller has left.
type detached struct {
	context.Context
	left chan struct{}
}

func (c *detached) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c *detached) Done() <-chan struct{}       { return c.left }
func (c *detached) Err() error {
	select {
	case <-c.left:
		return context.Canceled
	default:
		return nil
	}
}
