package denycache

import (
	"context"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A view is the knowledge about one charge of a decision.
type view struct {
	place      place
	entry      *entry  // nil if there is none
	denial     *answer // the answer that denies the charge, or nil
	generation uint64  // of the stripe, before the Store is asked
}

// Take implements [driver.Store]. A decision that is not denied here is passed on, and its
// errors are those of the Store behind, or that of ctx if it ends here.
func (s *Store) Take(ctx context.Context, charges []driver.Charge) error {
	var room [4]view
	views := room[:]
	if len(charges) > len(room) {
		views = make([]view, len(charges))
	}
	views = views[:len(charges)]
	for i := range views {
		views[i].place = placeOf(&charges[i])
	}
	denied, stale := s.look(charges, views)
	if denied {
		s.hits.Add(1)
		return nil
	}
	if stale < 0 {
		return s.ask(ctx, charges, views)
	}
	p, denied, err := s.wait(ctx, charges, views, stale)
	switch {
	case err != nil:
		return err
	case denied:
		s.hits.Add(1)
		return nil
	case p == nil:
		return s.ask(ctx, charges, views)
	}
	answered := false
	at := &views[stale].place
	defer func() { s.stripe(at).land(*at, p, answered) }() // even if the Store panics
	err = s.ask(ctx, charges, views)
	answered = err == nil
	return err
}

// look denies charges if an entry denies one of them. If not, stale is the index of a charge
// whose denial has ended just now, or -1.
func (s *Store) look(charges []driver.Charge, views []view) (denied bool, stale int) {
	var now int64
	unknown := false
	stale = -1
	for i := range views {
		c, v := &charges[i], &views[i]
		v.denial = nil
		if v.entry, _ = s.entries.GetIfPresent(v.place); v.entry == nil {
			continue
		}
		if now == 0 {
			now = s.now()
		}
		if c.Rule.Shadow() || !v.entry.about(c.Rule) {
			continue
		}
		d, was := v.entry.denial(c, now)
		switch {
		case d != nil:
			v.denial, denied = d, true
			unknown = unknown || !v.entry.deny(c, d, now)
		case was && stale < 0:
			stale = i
		}
	}
	if !denied {
		return false, stale
	}
	if unknown {
		return false, -1
	}
	for i := range views {
		if views[i].denial == nil {
			views[i].entry.estimate(&charges[i], now)
		}
	}
	return true, -1
}

// patience bounds how long a decision waits for the answer to another.
const patience = 10 * time.Millisecond

// wait waits for the answers to other calls about the same denial. It returns a probe if the
// caller is to ask the Store as one of its flights, and nil if the caller is to ask without
// one. While it waits, the charges may be denied here, or ctx may end.
func (s *Store) wait(ctx context.Context, charges []driver.Charge, views []view, stale int) (p *probe, denied bool, err error) {
	at := views[stale].place
	st := s.stripe(&at)
	p, flies, changed := st.enter(at, nil)
	if flies {
		return p, false, nil
	}
	s.waits.Add(1)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case <-changed:
			if denied, _ = s.look(charges, views); denied {
				st.quit(at, p)
				return nil, true, nil
			}
			if _, flies, changed = st.enter(at, p); flies {
				return p, false, nil
			}
		case <-timer.C:
			st.quit(at, p)
			return nil, false, nil
		case <-ctx.Done():
			st.quit(at, p)
			return nil, false, ctx.Err()
		}
	}
}

// ask asks the Store behind, and remembers its denials.
func (s *Store) ask(ctx context.Context, charges []driver.Charge, views []view) error {
	for i := range views {
		views[i].generation = s.stripe(&views[i].place).generation.Load()
	}
	s.misses.Add(1)
	sent := s.now()
	if err := s.next.Take(ctx, charges); err != nil {
		return err
	}
	denied, foreseen := false, false
	for i := range charges {
		c := &charges[i]
		if c.Rule.Shadow() {
			continue
		}
		denied = denied || !c.Verdict.Allowed
		if _, ok := foresee(c); ok {
			foreseen = true
		}
	}
	var heard int64
	if denied || foreseen {
		heard = s.now()
	}
	for i := range charges {
		c, v := &charges[i], &views[i]
		switch {
		case denied:
			s.learn(c, v, answerTo(c).believed(sent, heard, s.maxAge), false)
		case foreseen:
			a, ok := foresee(c)
			if !ok {
				a = answerTo(c)
			}
			s.learn(c, v, a.believed(sent, heard, s.maxAge), true)
		case v.entry != nil:
			s.forget(c) // all denials end later now
		}
	}
	return nil
}

// learn remembers a, the answer of the Store about c, unless the key was adjusted while the
// Store was asked. If something was taken, a replaces all answers.
func (s *Store) learn(c *driver.Charge, v *view, a answer, taken bool) {
	st := s.stripe(&v.place)
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.generation.Load() != v.generation {
		return
	}
	var e *entry
	if !taken {
		e, _ = s.entries.GetIfPresent(v.place)
	}
	s.entries.Set(v.place.owned(), e.with(c.Rule, a))
}
