package core

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// An Ask is the part of one limiter in a decision over several.
type Ask struct {
	Limiter *Limiter
	Key     string // not empty
	Cost    int    // zero means 1, unlike in AllowN; a negative cost is an [ErrNegativeCost]
	// MaxDelay denies an event that a leaky bucket would delay for longer. Zero means no bound. A
	// value below a microsecond accepts no delay.
	MaxDelay time.Duration
	// Peek charges nothing. If Cost would not fit, the whole decision is denied.
	Peek bool
}

// AllowTogether decides several asks together: it charges every rule of every ask, or none. Asks
// for the same rule and key are charged their sum, and share its State. Peeks for the same rule and
// key count as the largest of them, and not at all if another Ask charges the rule.
//
// All limiters must have the same Store ([ErrInvalidAsk]). On a Redis Cluster, asks for different
// keys may be denied together although each would be admitted a moment later, but a limit is never
// exceeded: see package redisstore.
func AllowTogether(ctx context.Context, asks ...Ask) (d Decision, err error) {
	err = decide(ctx, &d, nil, asks...)
	return d, err
}

// decide calls the Store to charge all asks or none, and fills in d, which must be zero. If r is
// not nil, the Store also writes receipts, and r keeps them.
func decide(ctx context.Context, d *Decision, r *Reservation, asks ...Ask) error {
	if len(asks) == 0 {
		return fmt.Errorf("%w: there is none", ErrInvalidAsk)
	}
	b := batches.Get().(*batch)
	defer b.free()
	for i := range asks {
		switch a := &asks[i]; {
		case a.Limiter == nil:
			return fmt.Errorf("%w: ask %d has no limiter", ErrInvalidAsk, i)
		case i > 0 && a.Limiter.store != asks[0].Limiter.store:
			return fmt.Errorf("%w: asks 0 and %d have different stores", ErrInvalidAsk, i)
		}
		if err := b.add(&asks[i], driver.Spend); err != nil {
			return err
		}
	}
	var places []int
	if len(asks) > 1 {
		places = b.merge()
	}
	store := asks[0].Limiter.store
	if r != nil {
		r.begin(store, b.charges)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := store.Take(ctx, b.charges); err != nil {
		return err
	}
	d.sum(b.charges, b.rules)
	if r != nil {
		r.keep(b.charges, places, d.Allowed)
	}
	if places != nil {
		d.expand(places)
	}
	return nil
}

// A batch has the charges of one call of a Store.
type batch struct {
	charges []driver.Charge
	rules   []Rule // of the charges
	places  []int  // the index of the charge of each ask and rule, if charges were merged
	initial struct {
		charges [4]driver.Charge
		rules   [4]Rule
	}
}

// batches has batches for reuse: the charges of a call escape to the Store, an interface, and would
// be allocated on every call.
var batches = sync.Pool{New: func() any {
	b := new(batch)
	b.charges, b.rules = b.initial.charges[:0], b.initial.rules[:0]
	return b
}}

func (b *batch) free() {
	if cap(b.charges) > 64 {
		return
	}
	// The elements are not cleared: they are few, and the garbage collector empties the pool.
	b.charges, b.rules, b.places = b.charges[:0], b.rules[:0], b.places[:0]
	batches.Put(b)
}

// add adds the charges of a, with op, or with Peek if a.Peek is set. The Store does not check
// charges: New has checked the rules, and add, decide and merge check the rest.
func (b *batch) add(a *Ask, op driver.Op) error {
	switch {
	case a.Key == "":
		return ErrEmptyKey
	case a.Cost < 0:
		return fmt.Errorf("%w: %d", ErrNegativeCost, a.Cost)
	case a.MaxDelay < 0:
		return fmt.Errorf("%w: a MaxDelay of %v", ErrInvalidAsk, a.MaxDelay)
	case a.Peek:
		op = driver.Peek
	}
	for i := range a.Limiter.rules {
		r := a.Limiter.rules[i].inForce()
		b.rules = append(b.rules, r)
		b.charges = append(b.charges, driver.Charge{})
		c := &b.charges[len(b.charges)-1]
		c.Key, c.Rule, c.Op, c.Cost, c.MaxDelay = a.Key, r.d.compiled, op, max(a.Cost, 1), a.MaxDelay
	}
	return nil
}

// merge adds up the charges for the same rule and key, because a Store accepts each once. It
// returns b.places, or nil if nothing was merged.
func (b *batch) merge() []int {
	kept := b.charges[:0]
	for i := range b.charges {
		c := b.charges[i]
		at := 0
		for at < len(kept) && !kept[at].Meets(&c) {
			at++
		}
		if at == len(kept) {
			kept = append(kept, c)
			b.rules[at] = b.rules[i]
		} else {
			absorb(&kept[at], &c)
		}
		b.places = append(b.places, at)
	}
	if len(kept) == len(b.charges) {
		return nil
	}
	b.charges, b.rules = kept, b.rules[:len(kept)]
	return b.places
}

// absorb merges other into c: costs are added, the largest Peek counts, and no Peek beside a
// charge.
func absorb(c, other *driver.Charge) {
	if c.MaxDelay == 0 || other.MaxDelay > 0 && other.MaxDelay < c.MaxDelay {
		c.MaxDelay = other.MaxDelay
	}
	switch {
	case other.Op == driver.Peek && c.Op == driver.Peek:
		c.Cost = max(c.Cost, other.Cost)
	case other.Op == driver.Peek:
	case c.Op == driver.Peek:
		c.Op, c.Cost = other.Op, other.Cost
	default:
		c.Cost = saturated(c.Cost, other.Cost)
	}
}

// saturated returns a + b, or the largest int.
func saturated(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}
