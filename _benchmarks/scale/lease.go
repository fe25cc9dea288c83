package main

import (
	"context"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/lease"
)

func leasing(behind core.Store) layer {
	denied := denying(behind)
	s := lease.New(denied.store)
	return layer{s, func() float64 {
		_ = s.Close() // waits for calls in progress
		return denied.calls()
	}}
}

// leases prints the calls of Redis per decision behind a lease over a denycache.
func leases(ctx context.Context) error {
	bucket := func(limit core.Limit) []core.Rule { return []core.Rule{core.TokenBucket("r", limit)} }
	rows, err := crowds(ctx, "a key", leasing, []crowdOf{
		{"15 a second, limit 1000 a second", bucket(core.PerSecond(1000)), 15, 0},
		{"100 a second, limit 1000 a second", bucket(core.PerSecond(1000)), 100, 0},
		{"1000 a second, limit 10 000 a second", bucket(core.PerSecond(10_000)), 1000, 0},
		{"10 000 a second, limit 100 000 a second", bucket(core.PerSecond(100_000)), 10_000, 0},
		{"10 000 a second, limit 12 000 a second", bucket(core.PerSecond(12_000)), 10_000, 0},
		{"10 000 a second, limit 5000 a second", bucket(core.PerSecond(5000)), 10_000, 5000},
		{"1000 a second, limit 10 M a day", []core.Rule{core.FixedWindow("day", core.PerDay(10_000_000))}, 1000, 0},
	})
	if err != nil {
		return err
	}
	table("Calls of Redis per decision behind a lease over a denycache", rows...)
	return nil
}
