package lease

import (
	"context"

	"github.com/weir-go/weir/core/driver"
)

// A waiter waits for the answer to a flight.
type waiter struct {
	cost  int64
	tries int
	done  chan struct{}

	settled bool // what follows is the answer
	left    bool // nobody waits any more
	outcome outcome
	verdict driver.Verdict
	taken   taken
	err     error
}

// A taken is what a charge has taken of a lease.
type taken struct {
	block
	cell   *cell
	resets uint64 // of the cell, then

	watched bool   // nothing was taken, and the answer of the Store is of interest
	changes uint64 // of the cell, then
}

// An outcome is how a try to take tokens from a lease ended.
type outcome uint8

const (
	straight outcome = iota // the Store itself has to be asked
	granted
	denied
)

// After maxTries flights that have not brought enough, because others took meanwhile what
// there was, there is one for a single waiter and all of its cost, which decides.
const maxTries = 2

// maxAhead bounds the calls that nobody waits for.
const maxAhead = 64

func (w *waiter) settle(o outcome, v driver.Verdict, t taken, err error) {
	w.settled, w.outcome, w.verdict, w.taken, w.err = true, o, v, t, err
	close(w.done)
}

// A flight is a call that takes tokens for those who wait, and a block. There is one
// for a place at a time.
type flight struct {
	cell    *cell
	waiters []*waiter
	want, n int64 // for those, and altogether
	resets  uint64
	changes uint64

	ahead bool // nobody waits for it

	sent, heard int64
	charge      [1]driver.Charge
	receipt     driver.Receipt
}

// launch sends a flight for those who wait for c, as far as the Store can have enough
// for them, and for the next block. The shard is locked, and not closed.
func (s *Store) launch(sh *shard, c *cell, now int64) {
	f := &flight{cell: c, resets: c.resets, changes: c.changes}
	free := c.m.capacity()
	if c.said.known {
		free = c.free(now)
	}
	alone := false
	for len(c.queue) > 0 {
		w := c.queue[0]
		if len(f.waiters) > 0 && (alone || w.tries >= maxTries || w.cost > free-f.want) {
			break
		}
		if c.queue = c.queue[1:]; !w.left {
			f.waiters = append(f.waiters, w)
			f.want += w.cost
			alone = w.tries >= maxTries
		}
	}
	// Tokens that are held may expire until the flight is back, unless there is little left.
	if f.want > free && !alone {
		f.want -= c.held(now)
	}
	f.n = f.want
	if !alone {
		f.n += c.extra(now, f.want)
	}
	if f.n <= 0 {
		return
	}
	if f.ahead = len(f.waiters) == 0; f.ahead {
		if s.ahead.Add(1) > maxAhead {
			s.ahead.Add(-1)
			return
		}
		c.first = 0 // once is enough
	}
	c.flying, c.dry = true, false
	s.background.Add(1)
	go s.fly(sh, f)
}

func (s *Store) fly(sh *shard, f *flight) {
	defer s.background.Done()
	f.charge[0] = driver.Charge{Key: f.cell.key, Rule: f.cell.m.rule, Cost: int(f.n), Receipt: &f.receipt}
	f.sent = s.clock()
	err := s.callAlone(context.Background(), f.charge[:])
	f.heard = s.clock()

	if f.ahead {
		s.ahead.Add(-1)
	}

	sh.mu.Lock()
	defer sh.mu.Unlock()
	f.cell.flying = false
	switch {
	case err != nil:
		// Callers that came during the call have waited for the Store, too. Another call
		// would make them wait for longer than one call lasts.
		for _, w := range append(f.waiters, f.cell.queue...) {
			w.settle(straight, driver.Verdict{}, taken{}, err)
		}
		f.cell.queue = nil
	case f.charge[0].Verdict.Allowed:
		s.land(sh, f)
	default:
		f.bounce()
	}
	s.serve(sh, f.cell, f.heard)
}

// land hands out what a flight has brought. What was wanted when the Store gave it is
// spent as of then; the rest is a block.
func (s *Store) land(sh *shard, f *flight) {
	c := f.cell
	m := c.m
	first := m.count(f.receipt.Used)
	report := newReport(m, &f.charge[0], f.sent, f.heard)
	if m.flow > 0 { // a State is rounded to microseconds, a Receipt is not
		report.used = first + f.n*m.unit
	}
	if c.said = report; c.changes != f.changes {
		c.said.doubt()
	}
	b := block{
		at: f.receipt.At, asked: f.sent, ends: f.sent + report.surely() - report.surely()/driftShare, origin: f.receipt.Origin,
		front: first, limit: first + f.n*m.unit,
	}
	c.follow(b.origin)
	var again []*waiter
	for _, w := range f.waiters {
		fresh := b.tokens(m)
		k := min(w.cost, fresh)
		switch {
		case w.left:
			continue
		case w.cost-k > c.held(f.heard):
			w.tries++
			again = append(again, w)
			continue
		}
		used := report.most(m, f.heard) - (c.held(f.heard)+fresh)*m.unit
		v := m.verdict(used, report.lasts(f.heard), w.cost, true)
		t := b.split(m, k)
		if k < w.cost {
			t.join(m, c.spend(f.heard, w.cost-k))
		}
		c.spent += k
		w.settle(granted, v, taken{block: t, cell: c, resets: f.resets}, nil)
	}
	c.queue = append(again, c.queue...)
	sh.leased += uint64(b.tokens(m))
	if b.tokens(m) > 0 && c.resets == f.resets && !sh.closed && !c.gone {
		c.keep(b, f.heard)
	}
}

// bounce is for a flight that the Store has denied. Who would do with what there is
// goes on waiting; what cannot be told here, the Store is asked for.
func (f *flight) bounce() {
	c := f.cell
	c.said, c.dry = newReport(c.m, &f.charge[0], f.sent, f.heard), true
	budget, claims := int64(f.charge[0].Verdict.Remaining)+c.held(f.heard), int64(0)
	var again []*waiter
	for _, w := range f.waiters {
		w.tries++
		switch {
		case w.left:
		case !c.said.known:
			w.settle(straight, driver.Verdict{}, taken{}, nil)
		case w.cost <= budget-claims && w.tries <= maxTries:
			claims += w.cost
			again = append(again, w)
		default:
			w.settle(denied, c.denial(f.heard, claims, w.cost), taken{}, nil)
		}
	}
	c.queue = append(again, c.queue...)
	if c.changes != f.changes {
		c.said.doubt()
	}
}

// serve answers those who wait for c and can be answered without the Store, and sends
// a flight for the others.
func (s *Store) serve(sh *shard, c *cell, now int64) {
	waiting, claims := c.queue[:0], int64(0)
	for _, w := range c.queue {
		switch {
		case w.left:
		case sh.closed:
			w.settle(straight, driver.Verdict{}, taken{}, nil)
		case c.held(now) >= w.cost:
			v := c.verdict(now, c.held(now), w.cost, true)
			sh.hits++
			w.settle(granted, v, taken{block: c.spend(now, w.cost), cell: c, resets: c.resets}, nil)
		case c.refuses(now, claims, w.cost, int64(s.config.maxAge)):
			sh.hits++
			w.settle(denied, c.denial(now, claims, w.cost), taken{}, nil)
		default:
			claims += w.cost
			waiting = append(waiting, w)
		}
	}
	c.queue = waiting
	if len(c.queue) > 0 {
		s.launch(sh, c, now)
	}
}
