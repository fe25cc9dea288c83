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

// A fetch is a call of the Store behind that takes tokens for waiters and for a bundle. A fetch
// without waiters is a prefetch. An account has at most one fetch at a time.
type fetch struct {
	store   *Store
	account *account
	waiters []*waiter

	sent, now int64
	charge    [1]driver.Charge
}

// startFetch starts a fetch for the waiters of an account and for the next bundle. It takes tokens for the
// first waiter, and for as many others as the Store may have tokens for. The shard must be locked
// and not closed.
func startFetch(s *Store, a *account, now int64) {
	f := &fetch{store: s, account: a}
	f.waiters, a.waiters = slices.DeleteFunc(a.waiters, func(w *waiter) bool { return w.gone }), nil
	want, free := int64(0), a.reply.free(&a.u, now)
	for _, w := range f.waiters {
		if w.attempts++; want == 0 || w.cost <= free-want {
			want += w.cost
		}
	}
	// Held tokens may expire during the call. They are therefore subtracted from want only if the
	// Store probably has fewer tokens than want.
	if want > free {
		want -= a.held(now)
	}
	n := want + a.bundleSize(now, want)
	if n <= 0 {
		return
	}
	if len(f.waiters) == 0 {
		if s.prefetches.Add(1) > maxPrefetches {
			s.prefetches.Add(-1)
			return
		}
		a.lastBundle = 0 // no second prefetch
	}
	a.fetching, a.empty = true, a.rests(now)
	f.charge[0] = driver.Charge{Key: a.key, Rule: a.u.rule, Cost: int(n)}
	s.fetches.Add(1)
	go f.run()
}

func (f *fetch) run() {
	s, a := f.store, f.account
	defer s.fetches.Done()
	f.sent = s.clock()
	err := f.call()
	heard := s.clock()
	if len(f.waiters) == 0 {
		s.prefetches.Add(-1)
	}

	a.shard.mu.Lock()
	defer a.shard.mu.Unlock()
	f.now = a.shard.forward(s.clock()) // waiters may have come since heard
	a.fetching = false
	if err != nil {
		// Callers that came during the call have waited for the Store, too. With another
		// call they would wait for longer than one call lasts.
		for _, w := range append(f.waiters, a.waiters...) {
			w.settle(grant{}, driver.Verdict{}, err)
		}
		a.waiters = nil
		return
	}
	a.reply = newReply(&a.u, &f.charge[0], heard)
	waiters := f.waiters
	if f.charge[0].Verdict.Allowed {
		waiters = f.distribute()
	}
	if a.waiters = f.serve(append(waiters, a.waiters...)); len(a.waiters) > 0 {
		startFetch(s, a, f.now)
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
// rest to the account. It returns the waiters for which there were too few tokens. The event of a
// waiter counts from the Store's decision, so it may use tokens that have expired since then.
func (f *fetch) distribute() (retry []*waiter) {
	a := f.account
	u := &a.u
	begin := u.count(f.charge[0].Receipt.Used)
	end := begin + int64(f.charge[0].Cost)*u.unit
	if u.rate > 0 { // a Verdict is rounded to microseconds, a Receipt is not
		a.reply.used = end
	}
	validFor := a.reply.left - int64(time.Microsecond) // the Store's clock counts whole microseconds
	b := bundle{
		at: f.charge[0].Receipt.At, asked: f.sent, origin: f.charge[0].Receipt.Origin,
		expires: f.sent + validFor - validFor/driftFraction,
		begin:   begin, end: end,
	}
	a.setOrigin(b.origin)
	for _, w := range f.waiters {
		fresh, held := b.tokens(u), a.held(f.now)
		k := min(w.cost, fresh)
		switch {
		case w.gone:
		case w.cost-k > held:
			retry = append(retry, w)
		default:
			r := a.reply.reading(u, f.now, held+fresh, w.cost)
			t := grant{outcome: granted, account: a, bundle: b.split(u, k)}
			if a.newUse += k; k < w.cost {
				t.bundle.join(u, a.grant(f.now, w.cost-k).bundle)
			}
			w.settle(t, u.verdict(r, w.cost, true), nil)
		}
	}
	if n := b.tokens(u); n > 0 {
		a.shard.leased += uint64(n)
		a.add(b, f.now)
	}
	return retry
}

// serve settles the waiters for which enough tokens are held, and the waiters of f that the Store
// would have denied. It lets waiters make a call of their own if a fetch cannot serve them, and
// returns the waiters that must wait for the next fetch. These include every waiter that came
// during f and that the tokens do not suffice for: the reply may be older than the waiter.
func (f *fetch) serve(waiters []*waiter) (waiting []*waiter) {
	a, now, promised := f.account, f.now, int64(0)
	for _, w := range waiters {
		switch held := a.held(now); {
		case w.gone:
		case held >= w.cost:
			v := a.u.verdict(a.reply.reading(&a.u, now, held, w.cost), w.cost, true)
			w.settle(a.grant(now, w.cost), v, nil)
		case a.rests(now), a.reply.known && w.attempts > 0 && a.reply.free(&a.u, now)+held-promised < w.cost:
			a.empty = true
			w.settle(grant{outcome: denied}, a.reply.denial(&a.u, now, held, w.cost), nil)
		case a.evicted || !a.reply.known || w.attempts >= maxAttempts:
			w.settle(grant{}, driver.Verdict{}, nil)
		default:
			promised += w.cost
			waiting = append(waiting, w)
		}
	}
	return waiting
}
