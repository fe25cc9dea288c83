package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// A command is an EVALSHA or EVAL that go-redis sends at most once: its own
// retries also repeat commands that may have run.
type command struct{ *redis.Cmd }

// NoRetry keeps go-redis from repeating the command. Redirections are followed.
func (command) NoRetry() bool { return true }

// A sender sends a command and waits for the reply. When d ends first, the command must not
// be touched any more: it may still be under way.
type sender interface {
	send(d *deadline, cmd command) error
}

// direct sends each command on a connection of the client's pool, by a goroutine of its own:
// go-redis gives up a connection on which a deadline passed, and looks at deadlines only if
// the client was configured to. When the caller leaves, a command that still waits for a
// connection is withdrawn; one that was sent is left to its reply or to the client's
// ReadTimeout. So there are never more of those than the pool has connections.
type direct struct{ rdb redis.UniversalClient }

func (s direct) send(d *deadline, cmd command) error {
	ctx := &detached{Context: d.ctx, left: make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		var err error
		// A panic of the client, which a malformed reply or a hook can cause, is an error, as
		// in the automatic pipeline: the caller could not recover it from this goroutine.
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

// A detached context has the values of the caller's, and ends only when the caller leaves.
type detached struct {
	context.Context
	left chan struct{} // closed when the caller leaves
}

// Deadline implements context.Context: there is none.
func (c *detached) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (c *detached) Done() <-chan struct{} { return c.left }

// Err implements context.Context.
func (c *detached) Err() error {
	select {
	case <-c.left:
		return context.Canceled
	default:
		return nil
	}
}
