package redisstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
)

// probeRules are the rules of probes, by algorithm. The state that a probe writes has
// a TTL of 1 s at most.
var probeRules = [...]core.Rule{
	core.AlgorithmTokenBucket:   core.TokenBucket("probe", core.PerSecond(1_000_000)),
	core.AlgorithmLeakyBucket:   core.LeakyBucket("probe", core.PerSecond(1_000_000)),
	core.AlgorithmFixedWindow:   core.FixedWindow("probe", core.PerSecond(1_000_000)),
	core.AlgorithmSlidingWindow: core.SlidingWindow("probe", core.PerSecond(1_000_000)),
	core.AlgorithmSlidingLog:    core.SlidingLog("probe", core.PerSecond(1_000_000)),
}

var errProbeDenied = errors.New("a million probes in a second")

// Probe implements [core.Prober]. It spends one event, by the algorithm of each charge,
// on a key of its own in the hash slot of the charge, which Redis forgets within 2 s. A
// server that refuses writes, such as a replica or one that is out of memory, refuses
// this one too, and so does an ACL. Probe returns within [Timeout]. Its errors are
// those of Take, and do not count in [Stats].
func (s *Store) Probe(ctx context.Context, charges []core.Charge) error {
	if err := s.check(ctx, charges); err != nil {
		return err
	}
	var groups []*group
	where := make(map[string]*group)
	for i := range charges {
		tag, at := s.keys.tag(charges[i].Key), ""
		if s.group != nil {
			at = s.group(tag)
		}
		g := where[at]
		if g == nil {
			g = new(group)
			where[at] = g
			groups = append(groups, g)
		}
		algorithm := charges[i].Rule.Algorithm()
		if key := s.keys.probe(tag, algorithm); !slices.Contains(g.keys, key) {
			g.charges = append(g.charges, core.Charge{Rule: probeRules[algorithm], Op: core.Spend, Cost: 1})
			g.keys = append(g.keys, key)
		}
	}
	deadline := time.Now().Add(s.config.timeout)
	s.each(groups, func(g *group) { s.run(ctx, deadline, g) })
	admitted, err := outcome(groups)
	if err == nil && !admitted {
		err = errProbeDenied
	}
	return s.failure(ctx, err)
}
