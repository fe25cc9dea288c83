package redisstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// Take implements [driver.Store]. When the deadline passes or Redis fails, the error is
// core.ErrUnavailable; when ctx ends first, it is that of ctx.
func (s *Store) Take(ctx context.Context, charges []driver.Charge) error {
	return s.do(ctx, charges, (*Store).takeSplit)
}

// takeSplit decides charges that no single call reaches.
func (s *Store) takeSplit(ctx context.Context, deadline time.Time, charges []driver.Charge) error {
	groups, admitted, failed := s.runAll(ctx, deadline, s.split(charges))
	if failed != nil || !admitted {
		s.giveBack(ctx, deadline, groups)
	}
	if failed != nil {
		return failed
	}
	return answerAll(groups, charges, admitted)
}

// runAll decides groups, all at once, and returns what each of them did. A place in a
// queue can be given back only while it is the last, so groups that would take one
// only look at first, and take it when all others have said yes.
func (s *Store) runAll(ctx context.Context, deadline time.Time, groups []*group) (done []*group, admitted bool, failed error) {
	done = slices.Clone(groups)
	for i, g := range groups {
		if len(groups) > 1 && g.queues() {
			done[i] = g.peek()
		}
	}
	s.each(done, func(g *group) { s.run(ctx, deadline, g) })
	admitted, failed = outcome(done)
	for i, g := range groups {
		if done[i] != g && admitted && failed == nil {
			s.run(ctx, deadline, g)
			done[i], admitted, failed = g, g.admitted, g.err
		}
	}
	return done, admitted, failed
}

func outcome(groups []*group) (admitted bool, failed error) {
	admitted = true
	for _, g := range groups {
		admitted = admitted && g.admitted
		if g.err != nil {
			failed = g.err
		}
	}
	return admitted, failed
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

// giveBack undoes what the admitted groups took, and waits for it until the
// deadline; it is not given up when the caller leaves. What cannot be given back
// stays charged: the limit is then too strict, for the length of its period.
func (s *Store) giveBack(ctx context.Context, deadline time.Time, groups []*group) {
	var taken []*group
	for _, g := range groups {
		if back := g.undo(); back != nil {
			taken = append(taken, back)
		}
	}
	if len(taken) == 0 {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		lasting := context.WithoutCancel(ctx)
		own := time.Now().Add(s.config.timeout)
		s.each(taken, func(g *group) { s.run(lasting, own, g) })
	}()
	p := newPatience(ctx, deadline)
	defer p.end()
	_, _ = wait(p, done)
}
