package core

import (
	"context"
	"fmt"
	"math"
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

// withCost is a with a cost of n, of which zero is a Peek for one event.
func (a Ask) withCost(n int) Ask {
	a.Cost, a.Peek = n, n == 0
	return a
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
	b := batches.Get().(*batch)
	defer b.free()
	if err = b.addAll(asks); err != nil {
		return d, err
	}
	shared := b.merge()
	if err = b.decide(ctx, asks[0].Limiter.store, &d); err != nil || shared == nil {
		return d, err
	}
	return d.expand(shared), nil
}

func (b *batch) addAll(asks []Ask) error {
	if len(asks) == 0 {
		return fmt.Errorf("%w: there is none", ErrInvalidAsk)
	}
	for i, a := range asks {
		switch {
		case a.Limiter == nil:
			return fmt.Errorf("%w: ask %d has no limiter", ErrInvalidAsk, i)
		case a.Limiter.store != asks[0].Limiter.store:
			return fmt.Errorf("%w: asks 0 and %d have different stores", ErrInvalidAsk, i)
		}
		if err := b.add(a, driver.Spend); err != nil {
			return err
		}
	}
	return nil
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

// expand gives every ask its State again.
func (d Decision) expand(places []int) Decision {
	rest := make([]State, len(places)-1)
	for i := range rest {
		rest[i] = d.State(places[i+1])
	}
	d.rest, d.n = rest, len(places)
	return d
}
