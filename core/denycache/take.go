package denycache

import (
	"context"
	"slices"
	"strings"

	"github.com/maypok86/otter/v2"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/atmost"
	"github.com/weir-go/weir/core/internal/blockfor"
)

// A part describes one charge of a decision.
type part struct {
	key         cacheKey
	cached      bool   // there are denials
	adjustments uint64 // the value of Store.adjustments before the call of the Store
}

// Take implements [driver.Store]. It denies charges if a cached denial covers one of them, and
// otherwise passes them to the Store behind. It returns the errors of the Store behind, and the
// error of ctx if ctx ends while Take waits for the call of another decision.
func (s *Store) Take(ctx context.Context, charges []driver.Charge) error {
	var few [4]part
	parts := few[:0]
	for i := range charges {
		parts = append(parts, part{key: keyOf(&charges[i])})
	}
	most := charges[0].Cost
	atmost.SetCost(charges, 1) // a cached denial of 1 denies all
	denied, ended := s.lookup(charges, parts)
	if !denied && ended >= 0 {
		key := parts[ended].key
		if done := s.flights.join(key); done == nil {
			defer s.flights.finish(key)
		} else {
			s.waits.Add(1)
			if err := wait(ctx, done); err != nil {
				return err
			}
		}
		denied, _ = s.lookup(charges, parts) // another call may have cached a denial meanwhile
	}
	if denied {
		s.hits.Add(1)
		return nil
	}
	atmost.SetCost(charges, most)
	return s.ask(ctx, charges, parts)
}

// lookup reports whether a cached denial denies one of charges. It sets each Verdict from the
// cached denial, or to Unknown. ended is the index of an ended cached denial, or -1.
func (s *Store) lookup(charges []driver.Charge, parts []part) (denied bool, ended int) {
	ended = -1
	var now int64
	for i := range charges {
		c := &charges[i]
		c.Verdict = driver.Verdict{Rule: c.Rule, Allowed: true, Unknown: true}
		all, ok := s.denials.GetIfPresent(parts[i].key)
		if parts[i].cached = ok; !ok || c.Rule.Shadow {
			continue
		}
		if now == 0 {
			now = s.now()
		}
		switch d := all.find(c, now); {
		case d == nil:
		case now < d.until:
			c.Verdict = d.verdictAt(c, now)
			denied = denied || !c.Verdict.Allowed
		default:
			ended = i
		}
	}
	return denied && !mayBan(charges), ended
}

// mayBan reports whether a denial among the verdicts of lookup begins a ban that is not cached. Only the Store knows whether
// the denial still holds.
func mayBan(charges []driver.Charge) bool {
	for i := range charges {
		b := &charges[i]
		if !b.Ban || b.Op != driver.Spend || !b.Verdict.Unknown {
			continue
		}
		rule := strings.TrimSuffix(b.Rule.Name, blockfor.Suffix)
		if slices.ContainsFunc(charges, func(c driver.Charge) bool {
			return c.Key == b.Key && c.Rule.Name == rule && blockfor.Begins(&c)
		}) {
			return true
		}
	}
	return false
}

// ask calls the Store behind and caches its denials.
func (s *Store) ask(ctx context.Context, charges []driver.Charge, parts []part) error {
	for i := range parts {
		parts[i].adjustments = s.adjusted(parts[i].key).Load()
	}
	s.misses.Add(1)
	sent := s.now()
	if err := s.next.Take(ctx, charges); err != nil {
		return err
	}
	for i := range charges {
		c, p := &charges[i], &parts[i]
		if c.Verdict.Unknown {
			continue
		}
		if p.cached && c.Verdict.Allowed {
			s.denials.Invalidate(p.key) // denials of larger costs may last longer now
		}
		if !c.Rule.Shadow { // it may have the states of an enforced rule
			s.learn(c, *p, sent)
		}
	}
	return nil
}

// learn caches the denial that the verdict of c says, if any. The call was sent at that time.
func (s *Store) learn(c *driver.Charge, p part, sent int64) {
	if d, ok := newDenial(c, sent, s.maxAge); ok {
		d.heard = s.now()
		s.remember(p, d)
	}
}

// remember adds d to the denials of p, unless the key was adjusted during the call.
func (s *Store) remember(p part, d denial) {
	key := p.key
	key.key = strings.Clone(key.key) // the key may be a part of a larger string
	s.denials.Compute(key, func(all denials, _ bool) (denials, otter.ComputeOp) {
		if s.adjusted(p.key).Load() != p.adjustments {
			return nil, otter.CancelOp
		}
		if all = all.with(d); len(all) == 0 {
			return nil, otter.InvalidateOp
		}
		return all, otter.WriteOp
	})
}
