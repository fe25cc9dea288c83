package core

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/argument"
)

// A Limiter is a Store and the Rules that an event has to satisfy, all of them.
// It is safe for concurrent use. A key is any text but the empty one, which is an
// [ErrEmptyKey]: it would be one state for all whose key is empty by mistake. All state is
// in the Store, except for the callers that wait in [Limiter.Wait].
type Limiter struct {
	store Store
	rules []Rule
	line  line
}

// New returns a Limiter over s that admits an event if every rule does.
//
// What cannot be run is refused here, with a [RuleError] that names the rule
// and the field: no rules, a zero limit, a limit that cannot be represented
// exactly, a name that two of the rules have, or that another definition has on s. Processes
// that share s may have different limits for a while, as when a new version is rolled out:
// each decides by its own, over the same state.
func New(s Store, rules ...Rule) (*Limiter, error) {
	if argument.IsNil(s) {
		return nil, fmt.Errorf("%w: it is nil", ErrNoStore)
	} else if !reflect.ValueOf(s).Comparable() {
		return nil, fmt.Errorf("%w: %T cannot be compared; use a pointer", ErrNoStore, s)
	}
	if len(rules) == 0 {
		return nil, &RuleError{Field: "rules", Reason: "are missing: a limiter needs at least one", Category: ErrInvalidRule}
	}
	rules = slices.Clone(rules)
	for i := range rules {
		r := rules[i].def()
		if r.Algorithm == 0 {
			return nil, r.invalid("algorithm", "is none: make rules with TokenBucket, SlidingLog and the like")
		}
		if r.err != nil {
			return nil, r.err
		}
		for _, other := range rules[:i] {
			if other.Name() == r.Name {
				return nil, r.invalid("name", "is given to two rules of one limiter")
			}
		}
	}
	if d, ok := s.(driver.Declarer); ok {
		compiled := make([]*driver.Compiled, len(rules))
		for i := range rules {
			compiled[i] = rules[i].d.compiled
		}
		if err := d.Declare(compiled...); err != nil {
			return nil, err
		}
	}
	return &Limiter{store: s, rules: rules}, nil
}

// Must returns l and panics if err is not nil. It is for limiters that are made
// before the first request: core.Must(core.New(...)).
func Must(l *Limiter, err error) *Limiter {
	if err != nil {
		panic("core: Must: " + err.Error())
	}
	return l
}

// Rules returns a copy of the limiter's rules, in order.
func (l *Limiter) Rules() []Rule { return slices.Clone(l.rules) }

// Allow asks for one event of key, and takes it if it is admitted.
//
// The error says that no decision could be made ([ErrUnavailable], or the error
// of ctx); the Decision is then zero. Whether an error lets the event through is
// the caller's choice. The event may have been charged, but never twice.
func (l *Limiter) Allow(ctx context.Context, key string) (Decision, error) {
	return l.take(ctx, key, driver.Spend, 1)
}

// AllowN is Allow for an event that weighs n. Zero takes nothing and is denied while nothing
// is left, as [Limiter.Peek]; less is an [ErrNegativeCost], and more than the capacity of a
// rule is denied with [Never].
func (l *Limiter) AllowN(ctx context.Context, key string, n int) (Decision, error) {
	return l.take(ctx, key, driver.Spend, n)
}

// Peek says whether Allow would admit an event, and takes nothing. Its States say what is left
// with the event not taken.
func (l *Limiter) Peek(ctx context.Context, key string) (Decision, error) {
	return l.take(ctx, key, driver.Peek, 1)
}

// Reset forgets all that key has used of this limiter's rules, and reports whether that was
// anything: what has refilled or expired is nothing. The key is that of the key function
// (package keyfunc).
func (l *Limiter) Reset(ctx context.Context, key string) (found bool, err error) {
	return l.adjust(ctx, key, driver.Reset, 1)
}

// Credit frees n units that admitted events of key took: the newest events, where they are
// remembered one by one, and never more than is used now. It is for events that turned out
// not to count. Zero does nothing; less is an [ErrNegativeCost].
//
// Credit is not tied to a decision. Crediting twice, or crediting an event that was denied
// or has expired, frees capacity that other events used. Prefer [Reservation.Refund]. Of a
// [LeakyBucket] it frees the end of the queue, which another event may already have been told
// as its turn.
func (l *Limiter) Credit(ctx context.Context, key string, n int) error {
	_, err := l.adjust(ctx, key, driver.Credit, n)
	return err
}

// Debit charges key n units more, whether they fit or not: for the cost of an event that is
// known only after it, such as the bytes of a response or the tokens of a language model.
// Zero does nothing; less is an [ErrNegativeCost].
//
// A bucket goes into debt, and admits nothing until it has paid that back at its
// rate; so does the queue of a leaky bucket. Windows and logs count the events as
// if they happened now and forget them with the others, so at most they admit
// nothing for one period. An error says that it may have been charged, once.
//
// Debit adds. [Reservation.Settle] sets the total cost of an event of which a part was
// charged before.
func (l *Limiter) Debit(ctx context.Context, key string, n int) error {
	_, err := l.adjust(ctx, key, driver.Debit, n)
	return err
}

// adjust does op, of n units, to all rules of key. found is the answer to a Reset.
func (l *Limiter) adjust(ctx context.Context, key string, op driver.Op, n int) (found bool, err error) {
	if n == 0 {
		return false, nil
	}
	b := batches.Get().(*batch)
	defer b.free()
	if err := b.add(Ask{Limiter: l, Key: key, Cost: n}, op); err != nil {
		return false, err
	}
	if err := adjust(ctx, l.store, b.charges); err != nil {
		return false, err
	}
	for i := range b.charges {
		found = found || b.charges[i].Verdict.Found
	}
	return found, nil
}

// adjust calls s.Adjust with charges, of which there may be none, unless ctx has ended.
func adjust(ctx context.Context, s Store, charges []driver.Charge) error {
	if len(charges) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Adjust(ctx, charges)
}

func (l *Limiter) take(ctx context.Context, key string, op driver.Op, cost int) (Decision, error) {
	return l.decide(ctx, Ask{Limiter: l, Key: key}.withCost(cost), op)
}

func (l *Limiter) decide(ctx context.Context, a Ask, op driver.Op) (d Decision, err error) {
	b := batches.Get().(*batch)
	defer b.free()
	if err = b.add(a, op); err != nil {
		return d, err
	}
	err = b.decide(ctx, l.store, &d)
	return d, err
}

// A batch is the charges of one decision.
type batch struct {
	charges []driver.Charge
	rules   []Rule // of the charges
	room    struct {
		charges [4]driver.Charge
		rules   [4]Rule
	}
}

// Charges reach the Store through an interface and would be allocated on every
// call; so they are used again.
var batches = sync.Pool{New: func() any {
	b := new(batch)
	b.charges, b.rules = b.room.charges[:0], b.room.rules[:0]
	return b
}}

func (b *batch) free() {
	if cap(b.charges) > 64 {
		return
	}
	clear(b.charges) // rules may stay: they are few, and the pool forgets them
	b.charges, b.rules = b.charges[:0], b.rules[:0]
	batches.Put(b)
}

// add adds the charges of a, with an op that a.Peek may change. These are all the checks that
// charges need, with those of addAll and merge: New has checked the rules.
func (b *batch) add(a Ask, op driver.Op) error {
	if a.Key == "" {
		return ErrEmptyKey
	}
	if a.Cost < 0 {
		return fmt.Errorf("%w: %d", ErrNegativeCost, a.Cost)
	}
	if a.MaxDelay < 0 {
		return fmt.Errorf("%w: a MaxDelay of %v", ErrInvalidAsk, a.MaxDelay)
	}
	cost := max(a.Cost, 1)
	if a.Peek {
		op = driver.Peek
	}
	for i := range a.Limiter.rules {
		r, c := a.Limiter.rules[i].inForce(), b.next()
		b.rules = append(b.rules, r)
		c.Key, c.Rule, c.Op, c.Cost, c.MaxDelay = a.Key, r.d.compiled, op, cost, a.MaxDelay
	}
	return nil
}

// next is one more charge, all zero.
func (b *batch) next() *driver.Charge {
	n := len(b.charges)
	if n == cap(b.charges) {
		b.charges = append(b.charges, driver.Charge{})
	} else {
		b.charges = b.charges[:n+1] // free has cleared it
	}
	return &b.charges[n]
}

// decide asks s and sums the answer up in d.
func (b *batch) decide(ctx context.Context, s Store, d *Decision) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.Take(ctx, b.charges); err != nil {
		return err
	}
	d.sum(b.charges, b.rules)
	return nil
}

// SharesStore says whether l and o can be asked together in one [AllowTogether].
func (l *Limiter) SharesStore(o *Limiter) bool { return l.store == o.store }
