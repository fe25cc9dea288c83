package redisstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
)

var errProbeDenied = errors.New("the probe was denied, as after a million probes in half a second")

// Probe implements [driver.Prober]. For each charge, it spends one event on a separate key in the
// same hash slot, with the algorithm of the charge, or that of a log for an in-flight rule and of a fixed
// window for a quota or pause. The key expires within 2 s. The probe fails if the server rejects writes, because it
// is a replica, has no free memory or has an ACL that forbids the write. Probe returns within [Timeout]. It
// returns the errors of Take, but [Stats] does not count them.
func (s *Store) Probe(ctx context.Context, charges []driver.Charge) error {
	var invalid error
	parts := s.parts(charges, func(p *part, i int, tag string) {
		rule, err := probeRule(charges[i].Rule)
		if err != nil {
			invalid = cmp.Or(invalid, err)
			return
		}
		key := s.encoder.Probe(tag, rule)
		if slices.Contains(p.job.Keys, key) {
			return
		}
		p.add(driver.Charge{Rule: rule, Op: driver.Spend, Cost: 1}, key, i)
	})
	if invalid != nil {
		return invalid
	}
	deadline := time.Now().Add(s.timeout)
	each(parts, func(p *part) { p.err = s.do(ctx, deadline, p.job) })
	admitted, err := outcome(parts)
	if err == nil && !admitted {
		err = errProbeDenied
	}
	return s.failure(ctx, err)
}

// probeRule returns the rule of probes for r. An in-flight rule has too few places for the probes of many processes, and
// a log needs the same permissions. A fixed window stands for rules that cannot have a short period and a million events.
// The TTL of the states of a probe is the window of half a second plus one sub-window, so at most about a second.
func probeRule(r *driver.Compiled) (c *driver.Compiled, err error) {
	wire.CheckDefinition(&r.Definition)
	all := []driver.Definition{{Algorithm: r.Algorithm, FromFirst: r.FromFirst, SubWindows: min(r.SubWindows, 1)}, {Algorithm: driver.FixedWindow}}
	if r.Definition.Kind().Holds {
		all[0] = driver.Definition{Algorithm: driver.SlidingLog}
	}
	for _, d := range all {
		d.Name, d.Events, d.Per = r.Name, 1_000_000, time.Second/2
		if c, err = d.Compile(); err == nil {
			break
		}
	}
	return c, err
}
