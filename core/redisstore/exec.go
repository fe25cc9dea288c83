package redisstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/driver"
)

// An executor executes the scripts of calls.
type executor struct {
	sender
	clock     func() string // of tests, Unix microseconds; nil for that of the server
	reload    func()        // asks for the layout of a Cluster when a command failed; may be nil
	arguments argumentCache

	corrupt, retried atomic.Uint64 // see Stats
}

// exec executes the script of c before the deadline, and sets the outcome of c.
func (e *executor) exec(ctx context.Context, at time.Time, c *call) {
	script, args := e.command(c)
	d := newDeadline(ctx, at)
	defer d.stop()
	reply, err := e.retry(d, script, args)
	if err == nil {
		err = c.decode(reply)
		e.corrupt.Add(uint64(c.corrupt))
	}
	c.err = err
}

var evalsha any = "evalsha" // boxed once

// command returns the script of c and its EVALSHA. The headers of take.lua, adjust.lua and
// take_bucket.lua describe the arguments.
func (e *executor) command(c *call) (*script, []any) {
	args := make([]any, 0, 6+9*len(c.charges))
	args = append(args, evalsha, nil, integer(int64(len(c.keys))))
	for _, key := range c.keys {
		args = append(args, key)
	}
	var now any = "" // the clock of the server
	if e.clock != nil {
		now = e.clock()
	}
	args = append(args, now)
	s := takeBucket
	if c.short() {
		args = append(args, e.arguments.of(&c.charges[0])...)
		for args[len(args)-1] == "" { // not needed at the end; the clock stays, because a cost follows it
			args = args[:len(args)-1]
		}
	} else {
		v, set := c.verb(), librarySet(0)
		for i := range c.charges {
			charge := &c.charges[i]
			l := algorithmOf(charge.Rule.Algorithm()).library
			set |= 1 << l
			args = append(args, libraries[l], opArgument(charge))
			args = append(args, e.arguments.of(charge)...)
			if charge.Op == driver.Undo {
				args = appendReceipt(args, *charge.Receipt, charge.Rule.Constants().Denominator)
			}
		}
		s = scriptFor(v, set)
	}
	args[1] = s.sha
	return s, args
}

// The number of attempts, and the pause after the first, for a command that did not run.
const (
	attempts = 4
	backoff  = 2 * time.Millisecond
)

// retry sends the command of args until it has run or may have run, or d ends. If the server
// does not know the script, it is sent along.
func (e *executor) retry(d *deadline, script *script, args []any) (any, error) {
	for attempt := 1; ; attempt++ {
		cmd := command{redis.NewCmd(d.ctx, args...)}
		err := e.send(d, cmd)
		if err != nil && e.reload != nil && !noScript(err) && d.ctx.Err() == nil {
			e.reload()
		}
		switch {
		case err == nil:
			return cmd.Val(), nil
		case d.err != nil:
			return nil, err
		case noScript(err) && args[0] == evalsha:
			args = append([]any{"eval", script.source}, args[2:]...)
		case !didNotRun(err) || attempt >= attempts:
			return nil, err
		default:
			if d.pause(backoff<<attempt) != nil {
				return nil, err
			}
		}
		e.retried.Add(1)
	}
}
