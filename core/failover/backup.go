package failover

import (
	"context"

	"github.com/weir-go/weir/core/driver"
)

// useBackup does charges without the primary. Each Undo has the Receipt that the backup
// wrote.
func (s *Store) useBackup(ctx context.Context, do verb, charges []driver.Charge) error {
	s.names.warn(s.Check)
	s.prober.renewSample(charges)
	clearReceipts(charges)
	if err := s.doBackup(ctx, do, charges); err != nil {
		return err
	}
	s.backups.Add(1)
	setOrigins(charges, byBackup)
	return nil
}

// doBackup does each charge on the backup of its rule.
func (s *Store) doBackup(ctx context.Context, do verb, charges []driver.Charge) error {
	answered, closed := 0, false
	for i := range charges {
		if a, ok := s.config.answers[charges[i].Rule.Name()]; ok {
			// FailClosed fails the whole decision, unless its rule is a shadow; then it admits.
			answered++
			closed = closed || a == FailClosed && !charges[i].Rule.Shadow()
		}
	}
	switch {
	case closed:
		return errClosed
	case answered == 0:
		return s.doDivided(ctx, do, charges)
	case answered == len(charges):
		return do(ctx, FailOpen, charges)
	}
	rest := part{}
	for i := range charges {
		if _, ok := s.config.answers[charges[i].Rule.Name()]; !ok {
			rest.add(i, charges[i])
		}
	}
	if err := s.doDivided(ctx, do, rest.charges); err != nil {
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

// doDivided does charges on the backup, with divided rules if there is an [Instances]. The
// charges have the caller's rules again when it returns.
func (s *Store) doDivided(ctx context.Context, do verb, charges []driver.Charge) error {
	if s.divider == nil {
		return do(ctx, s.backup, charges)
	}
	var room [8]*driver.Compiled
	whole := room[:0]
	for i := range charges {
		c := &charges[i]
		whole = append(whole, c.Rule)
		c.Rule = s.divider.divide(c.Rule)
	}
	defer func() {
		for i := range charges {
			charges[i].Rule = whole[i]
		}
	}()
	return do(ctx, s.backup, charges)
}

// A part is copies of some charges of a call, and where they were.
type part struct {
	charges []driver.Charge
	places  []int
}

func (p *part) add(place int, c driver.Charge) {
	p.charges = append(p.charges, c)
	p.places = append(p.places, place)
}

// copyTo copies the Verdicts to the charges of the call.
func (p *part) copyTo(charges []driver.Charge) {
	for i, place := range p.places {
		charges[place].Verdict = p.charges[i].Verdict
	}
}

// copyFound sets Found in the Verdicts of the charges of the call for which p has it.
func (p *part) copyFound(charges []driver.Charge) {
	for i, place := range p.places {
		v := &charges[place].Verdict
		v.Found = v.Found || p.charges[i].Verdict.Found
	}
}
