package redisstore

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
)

// take decides charges before ctx is done.
func (s *Store) take(ctx context.Context, charges []core.Charge) error {
	groups := s.split(charges)
	s.each(groups, func(g *group) { s.run(ctx, g, "") })
	admitted := true
	var failed error
	for _, g := range groups {
		admitted = admitted && g.admitted
		if g.err != nil {
			failed = g.err
		}
	}
	if len(groups) > 1 && (failed != nil || !admitted) {
		s.giveBack(ctx, groups)
	}
	if failed != nil {
		return failed
	}
	for _, g := range groups {
		if err := g.answer(admitted); err != nil {
			return err
		}
	}
	return nil
}

// each calls f for all groups at once.
func (s *Store) each(groups []*group, f func(*group)) {
	if len(groups) == 1 {
		f(groups[0])
		return
	}
	var wg sync.WaitGroup
	for _, g := range groups {
		wg.Go(func() { f(g) })
	}
	wg.Wait()
}

// giveBack undoes what the admitted groups took, and waits for it as long as
// ctx lasts; it is not given up when the caller leaves. What cannot be given
// back stays charged: the limit is then too strict, for the length of its period.
func (s *Store) giveBack(ctx context.Context, groups []*group) {
	var taken []*group
	for _, g := range groups {
		if back := g.spent(); back != nil {
			taken = append(taken, back)
		}
	}
	if len(taken) == 0 {
		return
	}
	done := make(chan struct{})
	lasting, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.timeout)
	go func() {
		defer close(done)
		defer cancel()
		s.each(taken, func(g *group) { s.run(lasting, g, refund) })
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// spent is a copy of g with only the charges that took something, or nil. A
// copy, because the charges are the caller's again when it has left.
func (g *group) spent() *group {
	if g.err != nil || !g.admitted {
		return nil
	}
	back := new(group)
	for i, c := range g.charges {
		if c.Op == core.Spend {
			c := *c
			back.charges = append(back.charges, &c)
			back.keys = append(back.keys, g.keys[i])
		}
	}
	if back.charges == nil {
		return nil
	}
	return back
}

// The ops as take.lua knows them.
var ops = [...]string{core.Spend: "s", core.Peek: "p", core.Reset: "x"}

const refund = "r"

// run decides one group in one call of a script, and notes the outcome in it.
func (s *Store) run(ctx context.Context, g *group, op string) {
	script := s.scripts.forCharges(g.charges)
	args := make([]any, 0, 4+len(g.keys)*8)
	args = append(args, "evalsha", script.sha, integer(int64(len(g.keys))))
	for _, k := range g.keys {
		args = append(args, k)
	}
	args = append(args, s.config.now())
	for _, c := range g.charges {
		p := &programs[c.Rule.Algorithm()]
		if op == "" {
			args = append(args, p.code, ops[c.Op])
		} else {
			args = append(args, p.code, op)
		}
		args = p.arguments(args, c)
	}
	reply, err := s.call(ctx, script, args)
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

// call sends the command of args until it has run or may have run, or ctx is
// done. Where the server does not know the script, it is sent along.
func (s *Store) call(ctx context.Context, script *script, args []any) ([]int64, error) {
	for attempt := 1; ; attempt++ {
		cmd := command{redis.NewIntSliceCmd(context.WithoutCancel(ctx), args...)}
		err := s.send.send(ctx, cmd)
		switch {
		case err == nil:
			return cmd.Val(), nil
		case ctx.Err() != nil:
			return nil, err
		case noScript(err) && args[0] == "evalsha":
			args = append([]any{"eval", script.source}, args[2:]...)
		case !didNotRun(err) || attempt == attempts:
			return nil, err
		default:
			if pause(ctx, backoff<<attempt) != nil {
				return nil, err
			}
		}
		s.retried.Add(1)
	}
}

// pause waits for a random part of d, at least half of it.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d/2 + rand.N(d/2))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read takes a reply apart. Anything but the shape that was asked for is an
// error: a reply must never open a limit by being misunderstood.
func (s *Store) read(g *group, reply []int64) error {
	if len(reply) < 2 || reply[0] != 1 && reply[0] != 2 || reply[1] < 0 {
		return errReply
	}
	g.admitted = reply[0] == 1
	if corrupt := reply[1]; corrupt > 0 {
		s.corrupt.Add(uint64(corrupt))
	}
	reply = reply[2:]
	g.replies = make([][]int64, len(g.charges))
	for i, c := range g.charges {
		n := programs[c.Rule.Algorithm()].readings
		if len(reply) < n {
			return errReply
		}
		g.replies[i], reply = reply[:n], reply[n:]
	}
	if len(reply) > 0 {
		return errReply
	}
	return nil
}

// answer fills in the States. admitted is the outcome of all groups together.
func (g *group) answer(admitted bool) error {
	fit := true
	for i, c := range g.charges {
		v, err := programs[c.Rule.Algorithm()].verdict(c, g.replies[i], admitted && c.Op == core.Spend)
		if err != nil {
			return err
		}
		if c.Op == core.Reset {
			v.Allowed, v.Retry = true, 0
		}
		fit = fit && v.Allowed
		c.Answer(v)
	}
	if fit != g.admitted {
		return errReply // the script and the arithmetic disagree: a reply to something else
	}
	return nil
}
