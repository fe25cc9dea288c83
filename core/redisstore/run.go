package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// run decides one group in one call of a script, and notes the outcome in it.
func (s *Store) run(ctx context.Context, deadline time.Time, g *group) {
	var room [1 + 2*MaxCharges]byte
	shape := room[:0]
	if g.timed {
		shape = append(shape, timed)
	}
	for i := range g.charges {
		c := &g.charges[i]
		shape = append(shape, byte(c.Rule.Algorithm()), opByte(c))
	}
	script := s.scripts.get(string(shape), compose)
	args := make([]any, 0, 5+len(g.keys)*6)
	args = append(args, evalsha, script.sha, integer(int64(len(g.keys))))
	for i := range g.keys {
		args = append(args, g.keys[i])
	}
	args = append(args, s.config.now())
	for i := range g.charges {
		args = s.arguments(args, &g.charges[i])
	}
	p := newPatience(ctx, deadline)
	defer p.end()
	reply, err := s.call(p, script, args)
	if err == nil {
		err = s.read(g, reply)
	}
	g.err = err
}

// How often, and after how long, a command that did not run is sent again.
const (
	attempts = 4
	backoff  = 2 * time.Millisecond
)

// call sends the command of args until it has run or may have run, or patience
// ends. Where the server does not know the script, it is sent along.
func (s *Store) call(p *patience, script *script, args []any) (any, error) {
	for attempt := 1; ; attempt++ {
		cmd := command{redis.NewCmd(p.ctx, args...)}
		err := s.send.send(p, cmd)
		if err != nil && s.doubt != nil && !noScript(err) && p.ctx.Err() == nil {
			s.doubt()
		}
		switch {
		case err == nil:
			return cmd.Val(), nil
		case p.over != nil:
			return nil, err
		case noScript(err) && args[0] == evalsha:
			args = append([]any{"eval", script.source}, args[2:]...)
		case !didNotRun(err) || attempt >= attempts:
			return nil, err
		default:
			if p.pause(backoff<<attempt) != nil {
				return nil, err
			}
		}
		s.retried.Add(1)
	}
}
