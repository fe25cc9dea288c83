package main

import (
	"context"
	"fmt"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/redisstore"
)

// growth prints the cost of a decision with more keys, and from more processes.
func growth(ctx context.Context, c config, s *server) error {
	sub := one("", core.TokenBucket, core.PerDay(1000).WithBurst(roomy), core.PerDay(1))
	rows := [][]string{{"keys in Redis", "Redis CPU a decision", "`Pipelined()`"}}
	if err := s.empty(ctx); err != nil {
		return err
	}
	filled := 0
	for keys := c.mostKeys / 100; keys <= c.mostKeys; keys *= 10 {
		direct, shut := s.limiters(1, c.callers, sub.rules)
		defer shut()
		pipelined, shut := s.limiters(1, c.callers, sub.rules, redisstore.Pipelined())
		defer shut()
		if err := each(keys-filled, c.callers, func(i int) error {
			_, err := pipelined[0].Allow(ctx, user(filled+i))
			return err
		}); err != nil {
			return err
		}
		filled = keys
		sub.keys = keys
		strict, err := s.perDecision(ctx, c, sub, direct)
		if err != nil {
			return err
		}
		fast, err := s.perDecision(ctx, c, sub, pipelined)
		if err != nil {
			return err
		}
		rows = append(rows, []string{fmt.Sprint(keys), micros(strict), micros(fast)})
	}
	table("More keys, token bucket", rows...)
	sub.keys = c.keys
	return processes(ctx, c, s, sub)
}

func processes(ctx context.Context, c config, s *server, sub subject) error {
	rows := [][]string{{"processes x callers", "Redis CPU a decision", "`Pipelined()`"}}
	for _, n := range []int{1, 4, 16, 64} {
		callers := max(1, c.callers/n)
		row := []string{fmt.Sprintf("%d x %d", n, callers)}
		for _, opts := range [][]redisstore.Option{nil, {redisstore.Pipelined()}} {
			ls, shut := s.limiters(n, c.callers, sub.rules, opts...)
			us, err := s.perDecision(ctx, c, sub, ls)
			shut()
			if err != nil {
				return err
			}
			row = append(row, micros(us))
		}
		rows = append(rows, row)
	}
	table("More processes, token bucket", rows...)
	return replica(ctx, c, s, sub)
}

// replica prints the cost of a decision on a master with and without a replica.
func replica(ctx context.Context, c config, s *server, sub subject) error {
	if len(s.own) == 0 {
		return nil
	}
	if err := s.empty(ctx); err != nil {
		return err
	}
	rows := [][]string{{"", "Redis CPU a decision", "`Pipelined()`"}}
	for _, name := range []string{"alone", "with a replica"} {
		row := []string{name}
		for _, opts := range [][]redisstore.Option{nil, {redisstore.Pipelined()}} {
			ls, shut := s.limiters(1, c.callers, sub.rules, opts...)
			us, err := s.perDecision(ctx, c, sub, ls)
			shut()
			if err != nil {
				return err
			}
			row = append(row, micros(us))
		}
		if rows = append(rows, row); len(rows) == 2 {
			if err := s.replicate(ctx); err != nil {
				return err
			}
		}
	}
	table("A master, token bucket", rows...)
	return nil
}
