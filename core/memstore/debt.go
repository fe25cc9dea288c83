package memstore

import "github.com/weir-go/weir/core/internal/algo"

// A debt is the state of a bucket of which more is in use than it holds. Such are
// rare, and need more words than a cell has.
type debt struct{ level algo.Level }

// weight returns the size of a slot[debt].
func (*debt) weight() int { return 32 }

func (d *debt) idle(now int64) bool { return d.level.Until.Micros < now }

// A debt that is being paid back has to stay: who forgets it lets the debtor in.
func (d *debt) pressure(now int64) uint64 {
	if d.idle(now) {
		return 0
	}
	return spent
}

// bucket reads the state of a bucket, and finds its cell if that is where it is.
func (s *shard) bucket(p place, now int64) (algo.Level, *cell) {
	if s.indebted {
		if d := s.debts.find(p.own); d != nil {
			return d.level, nil
		}
	}
	if c := find(s, &s.cells, p, now); c != nil {
		return algo.Level{Until: c.state()}, c
	}
	return algo.Level{}, nil
}

// owns says whether the bucket at p has a state of its own.
func (s *shard) owns(p place) bool {
	return s.cells.find(p.own) != nil || s.debts.find(p.own) != nil
}

// setBucket stores the state of a bucket. A debt for which there is no room is cut
// to an empty bucket.
func (s *shard) setBucket(p place, l algo.Level, b *algo.Bucket, now int64) {
	if l.Since != 0 && s.setDebt(p, l, now) {
		return
	}
	if l.Since != 0 {
		l = b.At(b.Full, now)
	}
	if s.indebted && s.debts.find(p.own) != nil {
		// It has a place of its own, and must not be written to a spillway.
		forget(s, &s.debts, p.own)
		s.indebted = s.debts.used > 0
		insert(s, &s.cells, p.own, now).set(l.Until, tolerance(b))
		return
	}
	hold(s, &s.cells, p, now).set(l.Until, tolerance(b))
}

func (s *shard) setDebt(p place, l algo.Level, now int64) (stored bool) {
	d := s.debts.find(p.own)
	if d == nil {
		if !s.makeRoom((*debt)(nil).weight(), now) {
			return false
		}
		d = insert(s, &s.debts, p.own, now)
	}
	forget(s, &s.cells, p.own)
	d.level, s.indebted = l, true
	return true
}
