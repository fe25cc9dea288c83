package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir/core"
)

// take decides charges before the deadline.
func (s *Store) take(ctx context.Context, deadline time.Time, charges []core.Charge) error {
	if s.group == nil || oneKey(charges) {
		g := s.whole(charges)
		s.run(ctx, deadline, &g)
		if g.err != nil {
			return g.err
		}
		return g.answer(g.admitted)
	}
	groups := s.split(charges)
	s.each(groups, func(g *group) { s.run(ctx, deadline, g) })
	admitted := true
	var failed error
	for _, g := range groups {
		admitted = admitted && g.admitted
		if g.err != nil {
			failed = g.err
		}
	}
	if failed != nil || !admitted {
		s.giveBack(ctx, deadline, groups)
	}
	if failed != nil {
		return failed
	}
	for _, g := range groups {
		if err := g.answer(admitted); err != nil {
			return err
		}
		for i, place := range g.places {
			charges[place].State = g.charges[i].State
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
