package lease

import (
	"context"
	"fmt"

	"github.com/weir-go/weir/core/driver"
)

// A waiter is a caller that waits for a call of the Store.
type waiter struct {
	cost     int64
	attempts int // calls that have not brought enough
	done     chan struct{}

	gone    bool // its context has ended
	settled bool // done is closed, and these are set:
	outcome outcome
	verdict driver.Verdict
	grant   grant
	err     error
}

// A grant is the tokens that a charge has taken from a lease.
type grant struct {
	block
	entry  *entry
	resets uint64 // of the entry, then

	remember bool   // nothing was taken, and the Store's verdict is to be remembered
	changes  uint64 // of the entry, then
}

// An outcome is the result of an attempt to take tokens from a lease.
type outcome uint8

const (
	passThrough outcome = iota // the Store has to decide
	granted
	denied
)

// maxAttempts bounds the calls for a waiter that may bring less than its cost, because other
// processes took tokens in the meantime. The call after them is for this waiter alone and for
// all of its cost, so that its verdict decides.
const maxAttempts = 2

// maxPrefetches bounds the calls without a waiter that are under way.
const maxPrefetches = 64

func (w *waiter) settle(o outcome, v driver.Verdict, g grant, err error) {
	w.settled, w.outcome, w.verdict, w.grant, w.err = true, o, v, g, err
	close(w.done)
}

// A fetch is a call that takes tokens for waiters, and a block. An entry has at most one at a
// time.
type fetch struct {
	entry    *entry
	waiters  []*waiter // none for a prefetch
	want, n  int64     // tokens for the waiters, and in all
	resets   uint64    // of the entry, at first
	changes  uint64    // likewise
	prefetch bool

	sent, heard int64
	charge      [1]driver.Charge
	receipt     driver.Receipt
}

// startFetch starts a fetch for as many waiters of e as the Store can have tokens for, and for
// the next block. The shard is locked, and not closed.
func (s *Store) startFetch(sh *shard, e *entry, now int64) {
	f := &fetch{entry: e, resets: e.resets, changes: e.changes}
	free := e.u.rule.Capacity()
	if e.reply.known {
		free = e.maxFree(now)
	}
	alone := false
	for len(e.waiters) > 0 {
		w := e.waiters[0]
		if len(f.waiters) > 0 && (alone || w.attempts >= maxAttempts || w.cost > free-f.want) {
			break
		}
		if e.waiters = e.waiters[1:]; !w.gone {
			f.waiters = append(f.waiters, w)
			f.want += w.cost
			alone = w.attempts >= maxAttempts
		}
	}
	// Tokens that are held count only near the end of a limit: they may expire during the call.
	if f.want > free && !alone {
		f.want -= e.held(now)
	}
	f.n = f.want
	if !alone {
		f.n += e.blockSize(now, f.want)
	}
	if f.n <= 0 {
		return
	}
	if f.prefetch = len(f.waiters) == 0; f.prefetch {
		if s.prefetches.Add(1) > maxPrefetches {
			s.prefetches.Add(-1)
			return
		}
		e.leased = 0 // no second prefetch
	}
	e.fetching, e.empty = true, false
	s.background.Add(1)
	go s.fetch(sh, f)
}

func (s *Store) fetch(sh *shard, f *fetch) {
	defer s.background.Done()
	e := f.entry
	f.charge[0] = driver.Charge{Key: e.key, Rule: e.u.rule, Cost: int(f.n), Receipt: &f.receipt}
	f.sent = s.clock()
	err := s.callFetch(f)
	f.heard = s.clock()
	if f.prefetch {
		s.prefetches.Add(-1)
	}

	sh.mu.Lock()
	defer sh.mu.Unlock()
	e.fetching = false
	switch {
	case err != nil:
		// Callers that came during the call have waited for the Store, too. Another call
		// would make them wait for longer than one call lasts.
		for _, w := range append(f.waiters, e.waiters...) {
			w.settle(passThrough, driver.Verdict{}, grant{}, err)
		}
		e.waiters = nil
	case f.charge[0].Verdict.Allowed:
		s.distribute(sh, f)
	default:
		f.deny()
	}
	s.serve(sh, e, f.heard)
}

// callFetch asks the Store for the tokens of f. A panic of the Store would end the process here,
// and not a request as in a caller's goroutine, so it is an error.
func (s *Store) callFetch(f *fetch) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("lease: the Store behind panicked: %v", p)
		}
	}()
	return s.call(ctx, f.charge[:])
}

// distribute gives the waiters of f, which the Store has admitted, their tokens, and adds the
// rest to the entry. The tokens of the waiters were spent when the Store gave them, even if
// they have expired since.
func (s *Store) distribute(sh *shard, f *fetch) {
	e := f.entry
	u := e.u
	first := u.count(f.receipt.Used)
	reply := newReply(u, &f.charge[0], f.sent, f.heard)
	if u.rate > 0 { // a Verdict is rounded to microseconds, a Receipt is not
		reply.used = first + f.n*u.unit
	}
	if e.reply = reply; e.changes != f.changes {
		e.reply.distrust()
	}
	b := block{
		at: f.receipt.At, asked: f.sent, origin: f.receipt.Origin,
		expires: f.sent + reply.validFor() - reply.validFor()/driftFraction,
		begin:   first, end: first + f.n*u.unit,
	}
	e.setOrigin(b.origin)
	var retry []*waiter
	for _, w := range f.waiters {
		fresh := b.tokens(u)
		k := min(w.cost, fresh)
		switch {
		case w.gone:
			continue
		case w.cost-k > e.held(f.heard):
			w.attempts++
			retry = append(retry, w)
			continue
		}
		used := reply.maxUsed(u, f.heard) - (e.held(f.heard)+fresh)*u.unit
		v := u.rule.Verdict(u.reading(used, reply.windowLeft(f.heard), w.cost), w.cost, driver.Never, true)
		t := b.split(u, k)
		if k < w.cost {
			t.join(u, e.spend(f.heard, w.cost-k))
		}
		e.spent += k
		w.settle(granted, v, grant{block: t, entry: e, resets: f.resets}, nil)
	}
	e.waiters = append(retry, e.waiters...)
	sh.leased += uint64(b.tokens(u))
	if b.tokens(u) > 0 && e.resets == f.resets && !sh.closed && !e.evicted {
		e.add(b, f.heard)
	}
}

// deny denies the waiters of f, which the Store has denied, except those for whom less than f.n
// would suffice: these wait for another call. Without a reply that can be counted, the Store
// has to decide for each.
func (f *fetch) deny() {
	e := f.entry
	e.reply, e.empty = newReply(e.u, &f.charge[0], f.sent, f.heard), true
	budget, claims := int64(f.charge[0].Verdict.Remaining)+e.held(f.heard), int64(0)
	var retry []*waiter
	for _, w := range f.waiters {
		w.attempts++
		switch {
		case w.gone:
		case !e.reply.known:
			w.settle(passThrough, driver.Verdict{}, grant{}, nil)
		case w.cost <= budget-claims && w.attempts <= maxAttempts:
			claims += w.cost
			retry = append(retry, w)
		default:
			w.settle(denied, e.denial(f.heard, claims, w.cost), grant{}, nil)
		}
	}
	e.waiters = append(retry, e.waiters...)
	if e.changes != f.changes {
		e.reply.distrust()
	}
}

// serve settles the waiters of e that can be admitted or denied without the Store, and starts
// a fetch for the others.
func (s *Store) serve(sh *shard, e *entry, now int64) {
	waiting, claims := e.waiters[:0], int64(0)
	for _, w := range e.waiters {
		switch {
		case w.gone:
		case sh.closed:
			w.settle(passThrough, driver.Verdict{}, grant{}, nil)
		case e.held(now) >= w.cost:
			v := e.u.rule.Verdict(e.reading(now, e.held(now), w.cost), w.cost, driver.Never, true)
			sh.hits++
			w.settle(granted, v, grant{block: e.spend(now, w.cost), entry: e, resets: e.resets}, nil)
		case e.cannotAdmit(now, claims, w.cost, int64(s.config.maxAge)):
			sh.hits++
			w.settle(denied, e.denial(now, claims, w.cost), grant{}, nil)
		default:
			claims += w.cost
			waiting = append(waiting, w)
		}
	}
	e.waiters = waiting
	if len(e.waiters) > 0 {
		s.startFetch(sh, e, now)
	}
}
