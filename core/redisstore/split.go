package redisstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/internal/pipe"
)

// A part is the charges of a decision in one hash slot.
type part struct {
	job *pipe.Job // must not be used after an error
	of  []int     // indexes of its charges in the argument of Take or Adjust
	err error
}

// add adds a charge, with its key in Redis and its index.
func (p *part) add(charge driver.Charge, key string, i int) {
	p.job.Charges, p.job.Keys, p.of = append(p.job.Charges, charge), append(p.job.Keys, key), append(p.of, i)
}

// parts makes an empty part for each hash slot of charges. For each charge, it runs add with the
// part of the slot, the index of the charge and the hash tag of its key.
func (s *Store) parts(charges []driver.Charge, add func(p *part, i int, tag string)) []*part {
	var parts []*part
	of := make(map[string]*part)
	one := s.one(charges)
	for i := range charges {
		tag := s.encoder.Tag(charges[i].Key)
		slot := ""
		if !one {
			slot = s.pipe.Slot(tag)
		}
		p := of[slot]
		if p == nil {
			p = &part{job: pipe.NewJob()}
			of[slot] = p
			parts = append(parts, p)
		}
		add(p, i, tag)
	}
	return parts
}

// decideSplit takes or adjusts charges in one job for each hash slot. The jobs run concurrently.
// A part that spends from a leaky bucket or from a quota with a rollover, or whose denials begin a ban, at first only peeks, and
// spends after all other parts were admitted: only the last place in a queue can be freed, and the charges of events that are
// denied elsewhere must fix no rest and ban no key.
func (s *Store) decideSplit(ctx context.Context, deadline time.Time, charges []driver.Charge) error {
	parts := s.parts(charges, func(p *part, i int, tag string) { p.add(charges[i], s.encoder.Key(tag, charges[i].Rule), i) })
	if len(parts) > 1 {
		s.split.Add(1)
	}
	spends := make(map[int]*part) // if parts[i] only peeks, spends[i] is the part that spends
	for i, p := range parts {
		if len(parts) > 1 && p.isLate() {
			spends[i], parts[i] = p, p.peek()
		}
	}
	each(parts, func(p *part) { p.err = s.do(ctx, deadline, p.job) })
	admitted, failed := outcome(parts)
	for i := range parts {
		if p := spends[i]; p != nil && admitted && failed == nil {
			p.err = s.do(ctx, deadline, p.job)
			parts[i] = p
			admitted, failed = outcome(parts[i : i+1])
		}
	}
	asks := charges[0].Op.Asks()
	if asks && (failed != nil || !admitted) {
		s.undo(ctx, deadline, parts)
	}
	if asks && failed != nil {
		return failed
	}
	for _, p := range parts {
		if p.err != nil {
			continue // the others were applied
		}
		if err := p.job.Answer(admitted || !asks); err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		for i, at := range p.of {
			charges[at].Verdict, charges[at].Receipt = p.job.Charges[i].Verdict, p.job.Charges[i].Receipt
		}
	}
	return failed
}

// isLate reports whether p spends after the other parts: see decideSplit.
func (p *part) isLate() bool {
	return slices.ContainsFunc(p.job.Charges, func(c driver.Charge) bool {
		return c.Op == driver.Spend && (c.Rule.Kind.Delays || c.Rule.Rollover > 0 || c.Ban)
	})
}

// peek returns a part with the charges of p as peeks.
func (p *part) peek() *part {
	peek := &part{job: pipe.NewJob()}
	for i, charge := range p.job.Charges {
		charge.Op = driver.Peek
		peek.add(charge, p.job.Keys[i], p.of[i])
	}
	return peek
}

// undone returns a part that undoes the charges that p has applied, possibly none.
func (p *part) undone() *part {
	undo := &part{job: pipe.NewJob()}
	if p.err != nil || !p.job.Admitted {
		return undo
	}
	for i, charge := range p.job.Charges {
		charge.MaxDelay = p.job.MaxDelay(i)
		reading := &p.job.Readings[i]
		if charge.Op != driver.Spend || charge.Rule.Shadow && !charge.Fits(reading) {
			continue
		}
		charge.Op, charge.Waiter, charge.Receipt = driver.Undo, nil, charge.Rule.Receipt(reading, p.job.Time, int64(charge.Cost))
		undo.add(charge, p.job.Keys[i], i)
	}
	return undo
}

// undo undoes the charges that parts have applied. It waits at most until the deadline passes or
// ctx ends; the undo continues after that. A charge that cannot be undone remains until it expires,
// so the limit is too strict for one period.
func (s *Store) undo(ctx context.Context, deadline time.Time, parts []*part) {
	var undos []*part
	for _, p := range parts {
		if undo := p.undone(); len(undo.of) > 0 {
			undos = append(undos, undo)
		}
	}
	if len(undos) == 0 {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		lasting := context.WithoutCancel(ctx)
		own := time.Now().Add(s.timeout)
		each(undos, func(p *part) { p.err = s.do(lasting, own, p.job) })
	}()
	waits, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	select {
	case <-done:
	case <-waits.Done():
	}
}

// outcome reports whether all parts are admitted, and returns the error of a part that failed.
func outcome(parts []*part) (admitted bool, failed error) {
	admitted = true
	for _, p := range parts {
		admitted = admitted && p.err == nil && p.job.Admitted
		if p.err != nil && (failed == nil || errors.Is(failed, ErrOverloaded)) { // an outage is the stronger reason
			failed = p.err
		}
	}
	return admitted, failed
}

// each runs f concurrently for every part, and waits for all of them.
func each(parts []*part, f func(*part)) {
	if len(parts) == 1 {
		f(parts[0])
		return
	}
	var wg sync.WaitGroup
	for _, p := range parts {
		wg.Go(func() { f(p) })
	}
	wg.Wait()
}
