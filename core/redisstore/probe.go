package redisstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-go/weir/core/driver"
)

var errProbeDenied = errors.New("a million probes in half a second")

// probeRule is the rule of probes by the algorithm of r. The state that a probe writes
// has a TTL of about a second at most: a window of half a second, and a sub-window.
func probeRule(r *driver.Compiled) (*driver.Compiled, error) {
	d := r.Definition()
	d.Events, d.Burst, d.Per, d.Shadow = 1_000_000, 0, time.Second/2, false
	return d.Compile()
}

// Probe implements [driver.Prober]. It spends one event, by the algorithm of each charge,
// on a key of its own in the hash slot of the charge, which Redis forgets within 2 s. A
// server that refuses writes, such as a replica or one that is out of memory, refuses
// this one too, and so does an ACL. Probe returns within [Timeout]. Its errors are
// those of Take, and do not count in [Stats].
func (s *Store) Probe(ctx context.Context, charges []driver.Charge) error {
	if err := tooMany(charges); err != nil {
		return err
	}
	var invalid error
	groups := s.groups(charges, func(g *group, i int, tag string) {
		key := s.keys.probe(tag, charges[i].Rule.Algorithm())
		if slices.Contains(g.keys, key) {
			return
		}
		rule, err := probeRule(charges[i].Rule)
		invalid = cmp.Or(invalid, err)
		g.charges = append(g.charges, driver.Charge{Rule: rule, Op: driver.Spend, Cost: 1})
		g.keys = append(g.keys, key)
	})
	if invalid != nil {
		return invalid
	}
	deadline := time.Now().Add(s.config.timeout)
	s.each(groups, func(g *group) { s.run(ctx, deadline, g) })
	admitted, err := outcome(groups)
	if err == nil && !admitted {
		err = errProbeDenied
	}
	return s.failure(ctx, err)
}
