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
		shape = append(shape, programs[c.Rule.Algorithm()].code, opFor(c))
	}
	script := s.scripts.get(string(shape), compose)
	args := make([]any, 0, 5+len(g.keys)*6)
	args = append(args, evalsha, script.sha, count(len(g.keys)))
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

// read takes a reply apart. Anything but the shape that was asked for is an
// error: a reply must never open a limit by being misunderstood.
func (s *Store) read(g *group, reply any) error {
	want := 0
	for i := range g.charges {
		want += programs[g.charges[i].Rule.Algorithm()].readings
	}
	if g.timed {
		want++
	}
	switch reply := reply.(type) {
	case int64:
		// A brief: one bucket, what is used of it, and nothing else to say.
		if len(g.charges) != 1 || want != 2 || g.timed {
			return errReply
		}
		g.admitted = reply >= 0
		if !g.admitted {
			reply = -1 - reply
		}
		g.readings = []int64{reply, 0}
		return nil
	case []any:
		if len(reply) != 2+want {
			return errReply
		}
		numbers := make([]int64, len(reply))
		for i, r := range reply {
			n, ok := r.(int64)
			if !ok || n < 0 {
				return errReply
			}
			numbers[i] = n
		}
		if numbers[0] != 1 && numbers[0] != 2 || numbers[1] > int64(len(g.charges)) {
			return errReply
		}
		g.admitted = numbers[0] == 1
		g.readings = numbers[2:]
		if g.timed {
			g.time = numbers[len(numbers)-1]
		}
		s.corrupt.Add(uint64(numbers[1]))
		return nil
	}
	return errReply
}
