package core

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// An Ask is one limiter's part of a decision over several.
type Ask struct {
	Limiter *Limiter
	Key     string // not empty
	Cost    int    // zero means 1, unlike in AllowN: to take nothing, set Peek; less is an [ErrNegativeCost]
	// MaxDelay denies an event that a leaky bucket would hold for longer, and takes
	// nothing for it. Zero is no bound; below a microsecond, no delay is accepted.
	MaxDelay time.Duration
	// Peek asks whether Cost would fit and takes nothing; if it does not fit, the whole
	// decision is denied.
	Peek bool
}

// AllowTogether decides several asks together: every rule of every ask is charged,
// or none is. Asks that meet in the same rule of the same key are charged their
// sum, and share its State. Of Peeks that meet, the largest counts; a Peek that meets an
// Ask that charges is left out.
//
// All limiters must have the same Store ([ErrInvalidAsk]). On a Redis Cluster,
// asks of different keys may be denied together although a moment later each
// would have been admitted, but are not admitted beyond a limit: see redisstore.
func AllowTogether(ctx context.Context, asks ...Ask) (d Decision, err error) {
	err = decide(ctx, &d, nil, asks...)
	return d, err
}

// decide asks the Store of asks to charge all of them or none, and fills in d, which is zero.
// If r is not nil, the Store also fills in receipts, and r keeps them.
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
		r.begin(store, b.charges, places)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := store.Take(ctx, b.charges); err != nil {
		return err
	}
	d.sum(b.charges, b.rules)
	if r != nil {
		r.keep(b.charges, d.Allowed)
	}
	if places != nil {
		d.expand(places)
	}
	return nil
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

// add adds the charges of a, with an op that a.Peek may change. The Store checks no charges:
// New has checked the rules, and add, decide and merge check the rest.
func (b *batch) add(a *Ask, op driver.Op) error {
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

// merge sums up charges of the same rule and key, for a Store takes each once.
// It returns nil if there are none, else where the charge of each ask went.
func (b *batch) merge() []int {
	var places []int
	kept := b.charges[:0]
	for i, c := range b.charges {
		at := len(kept)
		for j := range kept {
			if kept[j].Meets(&c) {
				at = j
				break
			}
		}
		if at == len(kept) {
			kept = append(kept, c)
			b.rules[at] = b.rules[i]
		} else {
			if places == nil {
				places = make([]int, i, len(b.charges))
				for j := range places {
					places[j] = j
				}
			}
			absorb(&kept[at], &c)
		}
		if places != nil {
			places = append(places, at)
		}
	}
	clear(b.charges[len(kept):])
	clear(b.rules[len(kept):])
	b.charges, b.rules = kept, b.rules[:len(kept)]
	return places
}

// absorb adds the cost of other to c, unless other is a Peek.
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

// saturated is a + b, or the largest int.
func saturated(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}
