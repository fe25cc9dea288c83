package core

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/argument"
)

// A Limiter is a Store and the Rules that an event has to satisfy, all of them.
// It is safe for concurrent use. A key is any text but the empty one, which is an
// [ErrEmptyKey]: it would be one state for all whose key is empty by mistake. All state is
// in the Store, except for the callers that wait in [Limiter.Wait].
type Limiter struct {
	store   Store
	rules   []Rule
	waiters waiters
}

// New returns a Limiter over s that admits an event if every rule does.
//
// Rules that cannot be run are a [RuleError] that names the rule and the field: no rules, a zero limit, a limit that cannot be represented
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
func (l *Limiter) Allow(ctx context.Context, key string) (d Decision, err error) {
	err = decide(ctx, &d, nil, Ask{Limiter: l, Key: key})
	return d, err
}

// AllowN is Allow for an event that weighs n. Zero takes nothing and is denied while nothing
// is left, as [Limiter.Peek]; less is an [ErrNegativeCost], and more than the capacity of a
// rule is denied with [Never].
func (l *Limiter) AllowN(ctx context.Context, key string, n int) (d Decision, err error) {
	err = decide(ctx, &d, nil, Ask{Limiter: l, Key: key, Cost: n, Peek: n == 0})
	return d, err
}

// Peek reports whether Allow would admit an event, and takes nothing. Its States describe the
// unchanged key.
func (l *Limiter) Peek(ctx context.Context, key string) (d Decision, err error) {
	err = decide(ctx, &d, nil, Ask{Limiter: l, Key: key, Peek: true})
	return d, err
}

// Reset forgets the events of key under this limiter's rules, and reports whether there were any
// that have not refilled or expired. The key is that of the key function (package keyfunc).
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
	if err := b.add(&Ask{Limiter: l, Key: key, Cost: n}, op); err != nil {
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := l.store.Adjust(ctx, b.charges); err != nil {
		return false, err
	}
	for i := range b.charges {
		found = found || b.charges[i].Verdict.Found
	}
	return found, nil
}

// SharesStore says whether l and o can be asked together in one [AllowTogether].
func (l *Limiter) SharesStore(o *Limiter) bool { return l.store == o.store }
