package lease

import (
	"context"
	"slices"

	"github.com/weir-go/weir/core/driver"
)

// A piece is what is known of one charge of a decision.
type piece struct {
	taken   taken
	outcome outcome
}

// takeTogether decides several charges: all or none. What leases cover is taken
// from these; all the rest goes to the Store in one call. If that denies, what was
// taken here is put back.
func (s *Store) takeTogether(ctx context.Context, charges []driver.Charge) error {
	var room [4]piece
	parts := room[:0]
	refused := false
	for i := range charges {
		c, p := &charges[i], piece{}
		if c.Op == driver.Spend && !refused && s.leasable(c) {
			var err error
			if p.taken, p.outcome, err = s.acquire(ctx, c, false); err != nil {
				s.restore(charges, parts)
				return err
			}
			refused = p.outcome == denied
		}
		parts = append(parts, p)
	}
	if slices.ContainsFunc(parts, func(p piece) bool { return p.outcome == straight }) {
		if err := s.rest(ctx, charges, parts, refused); err != nil {
			s.restore(charges, parts)
			return err
		}
	}
	if refused || deniedBy(charges) {
		s.restore(charges, parts)
		return nil
	}
	for i := range parts {
		if c := &charges[i]; parts[i].outcome == granted && c.Receipt != nil {
			*c.Receipt = parts[i].taken.receipt(parts[i].taken.cell.m)
		}
	}
	return nil
}

// rest asks the Store about the charges that leases do not cover; if the decision has
// been refused, only to be told what they would be.
func (s *Store) rest(ctx context.Context, charges []driver.Charge, parts []piece, refused bool) error {
	asked := make([]driver.Charge, 0, len(charges))
	for i := range parts {
		if parts[i].outcome == straight {
			c := charges[i]
			if refused {
				c.Op = driver.Peek
			}
			asked = append(asked, c)
		}
	}
	sent := s.clock()
	if err := s.call(ctx, asked); err != nil {
		return err
	}
	heard := s.clock()
	looking := refused || !slices.ContainsFunc(charges, func(c driver.Charge) bool { return c.Op == driver.Spend })
	for i := range parts {
		if parts[i].outcome != straight {
			continue
		}
		c := &charges[i]
		c.Verdict = asked[0].Verdict
		asked = asked[1:]
		s.learn(c, &parts[i].taken, sent, heard)
		if looking { // nothing depends on it
			s.reveal(c)
		}
	}
	return nil
}

// deniedBy says whether a charge denies the decision.
func deniedBy(charges []driver.Charge) bool {
	for i := range charges {
		if c := &charges[i]; !c.Verdict.Allowed && !c.Rule.Shadow() {
			return true
		}
	}
	return false
}

// learn remembers what the Store said about a charge that went straight.
func (s *Store) learn(c *driver.Charge, t *taken, sent, heard int64) {
	if !t.watched {
		return
	}
	sh := s.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	cell := sh.find(c)
	if cell == nil || cell.changes != t.changes || !cell.m.measures(c.Rule) || cell.said.known && heard < cell.said.heard {
		return
	}
	cell.said = newReport(cell.m, c, sent, heard)
}

// restore puts back what a decision took that was denied or has failed, and says in its
// Verdicts what is left with nothing taken.
func (s *Store) restore(charges []driver.Charge, parts []piece) {
	for i := range parts {
		p, c := &parts[i], &charges[i]
		if p.outcome != granted {
			continue
		}
		sh := s.shard(c.Key)
		sh.mu.Lock()
		if cell := p.taken.cell; sh.find(c) == cell && !sh.closed {
			now := s.clock()
			cell.restore(now, &p.taken)
			setVerdict(c, cell.verdict(now, cell.held(now), int64(c.Cost), false))
		}
		sh.mu.Unlock()
	}
}
