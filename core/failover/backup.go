package failover

import (
	"context"

	"github.com/weir-go/weir/core"
)

// fallBack decides charges without the primary. An Undo in it is about what the
// backup has taken, and bears the backup's own receipt.
func (s *Store) fallBack(ctx context.Context, charges []core.Charge) error {
	s.names.warn(s.Check)
	s.freshSample(charges)
	if err := core.CheckCharges(charges); err != nil {
		return err
	}
	clearReceipts(charges)
	if err := s.decide(ctx, charges); err != nil {
		return err
	}
	s.backups.Add(1)
	sign(charges, byBackup)
	return nil
}

// decide sends each charge to the backup of its rule.
func (s *Store) decide(ctx context.Context, charges []core.Charge) error {
	open, closed := 0, false
	for i := range charges {
		if a, ok := s.config.answers[charges[i].Rule.Name()]; ok {
			// FailClosed fails the whole decision, unless its rule is a shadow; then it admits.
			open++
			closed = closed || a == FailClosed && !charges[i].Rule.IsShadow()
		}
	}
	switch {
	case closed:
		return errClosed
	case open == 0:
		return s.askBackup(ctx, charges)
	case open == len(charges):
		return FailOpen.Take(ctx, charges)
	}
	rest := part{}
	for i := range charges {
		if _, ok := s.config.answers[charges[i].Rule.Name()]; !ok {
			rest.add(i, charges[i])
		}
	}
	if err := s.askBackup(ctx, rest.charges); err != nil {
		return err
	}
	rest.copyTo(charges)
	for i := range charges {
		if _, ok := s.config.answers[charges[i].Rule.Name()]; ok {
			admit(&charges[i])
		}
	}
	return nil
}

// askBackup asks the backup, about shares if there are any. The rules of the
// caller's charges are put back when it has answered.
func (s *Store) askBackup(ctx context.Context, charges []core.Charge) error {
	if s.shares == nil {
		return s.backup.Take(ctx, charges)
	}
	var room [8]core.Rule
	whole := room[:0]
	for i := range charges {
		c := &charges[i]
		whole = append(whole, c.Rule)
		c.Rule = s.shares.of(c.Rule)
		if c.Op == core.Undo {
			fit(c)
		}
	}
	defer func() {
		for i := range charges {
			charges[i].Rule = whole[i]
		}
	}()
	return s.backup.Take(ctx, charges)
}

// fit makes sure that the receipt of an Undo can be read by c's rule: what a part of
// the cost is worth may have been added to it as the whole rule counts it.
func fit(c *core.Charge) {
	p := c.Rule.Program()
	if den := p.Bucket.Den(); den > 0 && c.Receipt.Used.Frac >= den {
		c.Receipt.Used.Frac = 0
	}
}

// A part is copies of some charges of a call, and where they were.
type part struct {
	charges []core.Charge
	places  []int
}

func (p *part) add(place int, c core.Charge) {
	p.charges = append(p.charges, c)
	p.places = append(p.places, place)
}

// copyTo gives the caller the answers.
func (p *part) copyTo(charges []core.Charge) {
	for i, place := range p.places {
		charges[place].State = p.charges[i].State
	}
}
