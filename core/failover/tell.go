package failover

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-go/weir/core"
)

var errAway = fmt.Errorf("%w: the primary is away, and what it has taken stays taken", core.ErrUnavailable)

// tell does what is not asked but told. What is undone is undone where it was
// taken, a Reset goes to both stores, and all else to the store that decides now.
func (s *Store) tell(ctx context.Context, charges []core.Charge) error {
	begun := s.now()
	admitted := s.breaker.admits(begun)
	if admitted && simple(charges) {
		away, err := s.ask(ctx, begun, charges)
		if away {
			return s.salvage(ctx, charges, err)
		}
		return err
	}
	if err := core.CheckCharges(charges); err != nil {
		return err
	}
	t := telling{reach: s.breaker.State() != Backup}
	for i := range charges {
		t.add(i, charges[i], admitted)
	}
	return s.tellBoth(ctx, charges, &t)
}

// A telling is charges by where they go.
type telling struct {
	reach         bool // the primary is asked at all
	first, second part // for the primary, and for the backup
	resets        part // for the backup too
}

// add adds the i-th charge; admitted says whether the primary decides.
func (t *telling) add(i int, c core.Charge, admitted bool) {
	switch {
	case c.Op == core.Undo && originOf(&c) == byBackup:
		t.second.add(i, unsigned(c))
	case c.Op == core.Undo:
		t.first.add(i, unsigned(c))
	case c.Op == core.Reset:
		if t.resets.add(i, c); t.reach {
			t.first.add(i, c)
		}
	case admitted:
		t.first.add(i, c)
	default:
		t.second.add(i, c)
	}
}

// simple says whether all charges go to the primary, and to it alone, once that
// is asked.
func simple(charges []core.Charge) bool {
	for i := range charges {
		c := &charges[i]
		if c.Op == core.Reset || c.Op == core.Undo && c.Receipt != nil && c.Receipt.Origin != 0 {
			return false
		}
	}
	return true
}

// tellBoth tells the primary first, the backup second, and resets to the backup
// too. The first error is returned when all have been told.
func (s *Store) tellBoth(ctx context.Context, charges []core.Charge, t *telling) error {
	var failed error
	note := func(err error) {
		if failed == nil {
			failed = err
		}
	}
	reset := false // by the primary
	if len(t.first.charges) > 0 {
		away, err := true, errAway
		if t.reach {
			away, err = s.ask(ctx, s.now(), t.first.charges)
		}
		reset = err == nil
		if away {
			err = s.salvage(ctx, t.first.charges, err)
		}
		note(err)
		t.first.copyTo(charges)
	}
	if len(t.second.charges) > 0 {
		note(s.fallBack(ctx, t.second.charges))
		t.second.copyTo(charges)
	}
	switch {
	case len(t.resets.charges) == 0:
	case reset:
		// The primary has forgotten, and decides or soon will. So this may fail.
		_ = s.decide(ctx, t.resets.charges)
	default:
		note(s.fallBack(ctx, t.resets.charges))
		t.resets.copyTo(charges)
	}
	return failed
}

// salvage does what can be done about charges that the primary was not told, or
// perhaps was. A debit is charged to the backup: twice is better than never.
// What is given back is not given back again, for the backup has not taken it. What
// is reset was, or will be, on the backup too.
func (s *Store) salvage(ctx context.Context, charges []core.Charge, cause error) error {
	var rest part
	lost := false
	for i := range charges {
		switch charges[i].Op {
		case core.Debit:
			rest.add(i, charges[i])
		case core.Credit, core.Undo:
			lost = true
		}
	}
	var err error
	if rest.charges != nil {
		err = s.fallBack(ctx, rest.charges)
		rest.copyTo(charges)
	}
	if !lost {
		return err
	}
	s.lost.Add(1)
	if !errors.Is(cause, core.ErrUnavailable) {
		cause = fmt.Errorf("%w: %w", core.ErrUnavailable, cause)
	}
	return cause
}
