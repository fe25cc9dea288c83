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
	clock     func() string // set by tests, Unix microseconds; nil for the clock of the server
	reload    func()        // reloads the slots of a Cluster after a command failed; may be nil
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

// command returns the script of c, and the EVALSHA with its arguments. The headers of take.lua,
// adjust.lua and take_bucket.lua describe the arguments.
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
		for args[len(args)-1] == "" { // the script needs no empty arguments at the end
			args = args[:len(args)-1]
		}
	} else {
		v, set := adjust, librarySet(0)
		if c.charges[0].Op.Asks() {
			v = take
		}
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

const (
	attempts = 4                    // at most, for a command that did not run
	backoff  = 2 * time.Millisecond // doubles with each attempt
)

// retry sends the command until it has run or may have run, until all attempts have failed, or
// until d ends. If the server does not know the script, retry sends the source.
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
