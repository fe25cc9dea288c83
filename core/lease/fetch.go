package lease

import (
	"context"
	"fmt"

	"github.com/weir-go/weir/core/driver"
)

const (
	// maxAttempts bounds the fetches for a waiter. They may bring fewer tokens than its cost if
	// other processes took tokens in the meantime. Then the waiter makes a call of its own.
	maxAttempts = 3
	// maxPrefetches bounds the prefetches that are under way.
	maxPrefetches = 64
)

// A fetch is a call of the Store behind that takes tokens for waiters and for a block. A fetch
// without waiters is a prefetch. An entry has at most one fetch at a time.
type fetch struct {
	store   *Store
	entry   *entry
	waiters []*waiter
	changes uint64 // of the entry, when the fetch began

	sent, now int64
	charge    [1]driver.Charge
}

// startFetch starts a fetch for the next block, and for as many waiters of e as the Store can have
// tokens for. The shard must be locked and not closed.
func startFetch(s *Store, e *entry, now int64) {
	f := &fetch{store: s, entry: e, changes: e.changes}
	want, free := int64(0), e.u.rule.Capacity()
	if e.reply.known {
		free = e.maxFree(now)
	}
	for len(e.waiters) > 0 {
		w := e.waiters[0]
		if want > 0 && w.cost > free-want {
			break
		}
		if e.waiters = e.waiters[1:]; !w.gone {
			f.waiters = append(f.waiters, w)
			want += w.cost
		}
	}
	// Held tokens may expire during the call. They are therefore subtracted from want only if the
	// Store certainly has fewer tokens than want.
	if want > free {
		want -= e.held(now)
	}
	n := want + e.blockSize(now, want)
	if n <= 0 {
		return
	}
	if len(f.waiters) == 0 {
		if s.prefetches.Add(1) > maxPrefetches {
			s.prefetches.Add(-1)
			return
		}
		e.lastBlock = 0 // no second prefetch
	}
	e.fetching, e.empty = true, false
	f.charge[0] = driver.Charge{Key: e.key, Rule: e.u.rule, Cost: int(n)}
	s.fetches.Add(1)
	go f.run()
}

func (f *fetch) run() {
	s, e := f.store, f.entry
	defer s.fetches.Done()
	f.sent = s.clock()
	err := f.call()
	heard := s.clock()
	if len(f.waiters) == 0 {
		s.prefetches.Add(-1)
	}

	e.shard.mu.Lock()
	defer e.shard.mu.Unlock()
	f.now = e.shard.forward(s.clock()) // waiters may have come since heard
	e.fetching = false
	if err != nil {
		// Callers that came during the call have waited for the Store, too. With another
		// call they would wait for longer than one call lasts.
		for _, w := range append(f.waiters, e.waiters...) {
			w.settle(grant{}, driver.Verdict{}, err)
		}
		e.waiters = nil
		return
	}
	e.reply = newReply(&e.u, &f.charge[0], f.sent, heard)
	var retry []*waiter
	if f.charge[0].Verdict.Allowed {
		retry = f.distribute()
	} else {
		e.empty = true
		retry = f.serve(f.waiters)
	}
	for _, w := range retry {
		w.attempts++
	}
	if e.changes != f.changes {
		e.reply.distrust()
	}
	if e.waiters = f.serve(append(retry, e.waiters...)); len(e.waiters) > 0 {
		startFetch(s, e, f.now)
	}
}

// call takes the tokens of f from the Store behind. It returns a panic of the Store as an error,
// because callers cannot recover panics of this goroutine.
func (f *fetch) call() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), f.store.config.timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("lease: the Store behind panicked: %v", p)
		}
	}()
	f.store.calls.Add(1)
	return f.store.next.Take(ctx, f.charge[:])
}

// distribute gives the tokens of f, which the Store has admitted, to the waiters of f, and adds the
// rest to the entry. It returns the waiters for which there were too few tokens. The event of a
// waiter counts from the Store's decision, so it may use tokens that have expired since then.
func (f *fetch) distribute() (retry []*waiter) {
	e := f.entry
	u := &e.u
	begin := u.count(f.charge[0].Receipt.Used)
	end := begin + int64(f.charge[0].Cost)*u.unit
	if u.rate > 0 { // a Verdict is rounded to microseconds, a Receipt is not
		e.reply.used = end
	}
	validFor := e.reply.validFor()
	b := block{
		at: f.charge[0].Receipt.At, asked: f.sent, origin: f.charge[0].Receipt.Origin,
		expires: f.sent + validFor - validFor/driftFraction,
		begin:   begin, end: end,
	}
	e.setOrigin(b.origin)
	for _, w := range f.waiters {
		fresh, held := b.tokens(u), e.held(f.now)
		k := min(w.cost, fresh)
		switch {
		case w.gone:
		case w.cost-k > held:
			retry = append(retry, w)
		default:
			r := e.reply.reading(u, f.now, held+fresh, w.cost)
			t := grant{outcome: granted, entry: e, block: b.split(u, k)}
			if e.newUse += k; k < w.cost {
				t.block.join(u, e.grant(f.now, w.cost-k).block)
			}
			w.settle(t, u.rule.Verdict(r, w.cost, driver.Never, true), nil)
		}
	}
	if n := b.tokens(u); n > 0 {
		e.shard.leased += uint64(n)
		e.add(b, f.now)
	}
	return retry
}

// serve settles the waiters that can be admitted or denied without a call, and the waiters that
// make a call of their own. It returns the waiters that must wait for the next fetch.
func (f *fetch) serve(waiters []*waiter) (waiting []*waiter) {
	e, now, promised := f.entry, f.now, int64(0)
	for _, w := range waiters {
		switch held := e.held(now); {
		case w.gone:
		case held >= w.cost:
			v := e.u.rule.Verdict(e.reply.reading(&e.u, now, held, w.cost), w.cost, driver.Never, true)
			w.settle(e.grant(now, w.cost), v, nil)
		case e.cannotAdmit(now, promised, w.cost, int64(f.store.config.maxAge)):
			e.empty = e.empty || promised == 0
			v := e.reply.denial(&e.u, now, held, promised, w.cost, e.minFree(w.cost))
			w.settle(grant{outcome: denied}, v, nil)
		case e.evicted || !e.reply.known || w.attempts >= maxAttempts:
			w.settle(grant{}, driver.Verdict{}, nil)
		default:
			promised += w.cost
			waiting = append(waiting, w)
		}
	}
	return waiting
}
