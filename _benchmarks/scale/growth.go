package main

import (
	"context"
	"fmt"
)

// growth prints the cost of a decision with more keys, and from more processes. It returns the cost
// from processes with one caller each, whose decisions share no round trips.
func growth(ctx context.Context, c config, s *server) (alone float64, err error) {
	sub := subjects(c)[0]
	rows := [][]string{{"keys in Redis", "Redis CPU a decision"}}
	if err := s.empty(ctx); err != nil {
		return 0, err
	}
	ls, shut := s.limiters(1, c.callers, sub.rules)
	defer shut()
	filled := 0
	for sub.keys = c.mostKeys / 100; sub.keys <= c.mostKeys; sub.keys *= 10 {
		if err := each(sub.keys-filled, c.callers, func(i int) error {
			_, err := ls[0].Allow(ctx, user(filled+i))
			return err
		}); err != nil {
			return 0, err
		}
		filled = sub.keys
		us, err := s.perDecision(ctx, c, sub, ls)
		if err != nil {
			return 0, err
		}
		rows = append(rows, []string{fmt.Sprint(sub.keys), micros(us)})
	}
	table("More keys, token bucket", rows...)
	sub.keys = c.keys
	return processes(ctx, c, s, sub)
}

func processes(ctx context.Context, c config, s *server, sub subject) (us float64, err error) {
	rows := [][]string{{"processes x callers", "Redis CPU a decision"}}
	for _, n := range []int{1, 4, 16, 64} {
		ls, shut := s.limiters(n, c.callers, sub.rules)
		us, err = s.perDecision(ctx, c, sub, ls)
		shut()
		if err != nil {
			return 0, err
		}
		rows = append(rows, []string{fmt.Sprintf("%d x %d", n, max(1, c.callers/n)), micros(us)})
	}
	table("More processes, token bucket", rows...)
	return us, replica(ctx, c, s, sub)
}

// replica prints the cost of a decision on a master with and without a replica.
func replica(ctx context.Context, c config, s *server, sub subject) error {
	if len(s.own) == 0 {
		return nil
	}
	if err := s.empty(ctx); err != nil {
		return err
	}
	ls, shut := s.limiters(1, c.callers, sub.rules)
	defer shut()
	alone, err := s.perDecision(ctx, c, sub, ls)
	if err != nil {
		return err
	}
	if err = s.replicate(ctx); err != nil {
		return err
	}
	replicated, err := s.perDecision(ctx, c, sub, ls)
	if err != nil {
		return err
	}
	table("A master, token bucket", []string{"", "Redis CPU a decision"},
		[]string{"alone", micros(alone)}, []string{"with a replica", micros(replicated)})
	return nil
}
