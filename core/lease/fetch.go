package lease

import (
	"context"
	"fmt"
	"slices"
	"time"

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

	sent, now int64
	charge    [1]driver.Charge
}

// startFetch starts a fetch for the waiters of e and for the next block. It takes tokens for the
// first waiter, and for as many others as the Store may have tokens for. The shard must be locked
// and not closed.
func startFetch(s *Store, e *entry, now int64) {
	f := &fetch{store: s, entry: e}
	f.waiters, e.waiters = slices.DeleteFunc(e.waiters, func(w *waiter) bool { return w.gone }), nil
	want, free := int64(0), e.reply.free(&e.u, now)
	for _, w := range f.waiters {
		if w.attempts++; want == 0 || w.cost <= free-want {
			want += w.cost
		}
	}
	// Held tokens may expire during the call. They are therefore subtracted from want only if the
	// Store probably has fewer tokens than want.
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
	e.fetching, e.empty = true, e.rests(now)
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
	e.reply = newReply(&e.u, &f.charge[0], heard)
	waiters := f.waiters
	if f.charge[0].Verdict.Allowed {
		waiters = f.distribute()
	}
	if e.waiters = f.serve(append(waiters, e.waiters...)); len(e.waiters) > 0 {
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
	validFor := e.reply.left - int64(time.Microsecond) // the Store's clock counts whole microseconds
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
			w.settle(t, u.verdict(r, w.cost, true), nil)
		}
	}
	if n := b.tokens(u); n > 0 {
		e.shard.leased += uint64(n)
		e.add(b, f.now)
	}
	return retry
}

// serve settles the waiters for which enough tokens are held, and the waiters of f that the Store
// would have denied. It lets waiters make a call of their own if a fetch cannot serve them, and
// returns the waiters that must wait for the next fetch. These include every waiter that came
// during f and that the tokens do not suffice for: the reply may be older than the waiter.
func (f *fetch) serve(waiters []*waiter) (waiting []*waiter) {
	e, now, promised := f.entry, f.now, int64(0)
	for _, w := range waiters {
		switch held := e.held(now); {
		case w.gone:
		case held >= w.cost:
			v := e.u.verdict(e.reply.reading(&e.u, now, held, w.cost), w.cost, true)
			w.settle(e.grant(now, w.cost), v, nil)
		case e.rests(now), e.reply.known && w.attempts > 0 && e.reply.free(&e.u, now)+held-promised < w.cost:
			e.empty = true
			w.settle(grant{outcome: denied}, e.reply.denial(&e.u, now, held, w.cost), nil)
		case e.evicted || !e.reply.known || w.attempts >= maxAttempts:
			w.settle(grant{}, driver.Verdict{}, nil)
		default:
			promised += w.cost
			waiting = append(waiting, w)
		}
	}
	return waiting
}
