package core

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// An Ask is an argument of [AllowTogether]: a limiter, a key and a cost.
type Ask struct {
	Limiter *Limiter
	Key     string // not empty
	Cost    int    // zero means 1, unlike in AllowN; a negative cost is an [ErrNegativeCost]
	// If a leaky bucket would delay the event for longer than MaxDelay, the event is denied. Zero
	// means no bound. A value below a microsecond accepts no delay.
	MaxDelay time.Duration
	// A Peek charges nothing. If its Cost would not fit, the whole decision is denied.
	Peek bool
}

// AllowTogether decides about several asks together: it charges every rule of every ask, or none.
// If several asks have the same rule and key, their costs are added and charged once, and all of
// these asks get the same State. If several Peeks have the same rule and key, only the largest cost
// is checked, or none if another ask charges that rule and key.
//
// All limiters must have the same Store. Otherwise the error is an [ErrInvalidAsk]. On a Redis
// Cluster, asks for different keys may be denied together although each ask would be admitted a
// moment later, but a limit is never exceeded: see package redisstore.
func AllowTogether(ctx context.Context, asks ...Ask) (d Decision, err error) {
	err = decide(ctx, &d, nil, asks...)
	return d, err
}

// decide calls the Store, which charges all asks or none. It stores the decision in d, which must
// be zero, and the receipts of the charges in r, unless r is nil.
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

// A batch holds the charges of one call of a Store.
type batch struct {
	charges []driver.Charge
	rules   []Rule // of each charge
	places  []int  // if charges were merged: the index of the charge for each rule of each ask
	initial struct {
		charges [4]driver.Charge
		rules   [4]Rule
	}
}

// batches holds batches for reuse. The charges of a call escape to the Store, an interface, and
// would otherwise be allocated on every call.
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

// add appends a charge for each rule of a. Its op is op, or Peek if a.Peek is set. The Store does
// not check charges: New has checked the rules, and add, decide and merge check the rest.
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

// merge combines the charges for the same rule and key, because a call of a Store must not contain
// two of them. It returns b.places, or nil if nothing was merged.
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

// absorb merges other into c. It adds the costs, keeps the larger cost of two Peeks, and drops a
// Peek if the other charge is not a Peek.
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
