package core

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// An Ask is an argument of [AllowTogether]: a limiter, a key and a cost.
type Ask struct {
	Limiter *Limiter
	Key     string // not empty
	Cost    int    // zero means 1, unlike in AllowN; a negative cost is an [ErrNegativeCost]
	Plan    string // the plan whose limits apply, as in [Limiter.Plan]; empty means that of Limiter
	// If a leaky bucket would delay the event for longer than MaxDelay, the event is denied. Zero
	// means no bound. A value below a microsecond accepts no delay.
	MaxDelay time.Duration
	// A Peek charges nothing. If its Cost would not fit, the whole decision is denied.
	Peek bool
}

// AllowTogether decides about several asks together: it charges every rule of every ask, or none.
// If several asks have the same rule and key, their costs are added and charged once, and all of
// these asks get the same State. If several Peeks have the same rule and key, only the largest cost
// is checked, or none if another ask charges that rule and key. Asks with different limits for the
// same rule name and key, such as two plans, are an [ErrInvalidAsk].
//
// All limiters must have the same Store. Otherwise the error is an [ErrInvalidAsk]. On a Redis
// Cluster, a denied decision about several keys may hold capacity for a moment, or, if its undo is
// lost, until the charge expires, so that another decision is denied, too. Only the burst of a
// bucket can be exceeded, briefly: see redisstore.
func AllowTogether(ctx context.Context, asks ...Ask) (d Decision, err error) {
	err = decide(ctx, &d, nil, nil, asks...)
	return d, err
}

// decide calls the Store, which charges all asks or none. It stores the decision in d, which must
// be zero, and the receipts of the charges in r, unless r is nil. rules, unless nil, are those of the
// only ask.
func decide(ctx context.Context, d *Decision, r *Reservation, rules []Rule, asks ...Ask) error {
	b := batches.Get().(*batch)
	defer b.free()
	if err := b.fill(ctx, rules, asks); err != nil {
		return err
	}
	store := asks[0].Limiter.store
	if r != nil {
		r.begin(store, b.charges)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.blocked {
		for i := range b.charges {
			b.charges[i].Verdict = driver.Verdict{Allowed: true, Unknown: true}
		}
	} else if len(b.charges) > 0 {
		if err := store.Take(ctx, b.charges); err != nil {
			return err
		}
	}
	d.sum(b)
	if r != nil {
		r.keep(b, asks, d.Allowed)
	}
	return nil
}

// A batch holds the charges of one call of a Store.
type batch struct {
	charges []driver.Charge
	rules   []Rule // of all asks
	ends    []int  // if there are several asks: for each, the number of rules up to its end
	blocked bool   // the limit of an enforced rule is Blocked
	// places contains the index of the charge of each rule, or -1 for a limit that is never charged. It
	// is empty if the i-th rule has the i-th charge.
	places  []int
	initial struct {
		charges [4]driver.Charge
		rules   [4]Rule
		ends    [4]int
	}
}

// batches holds batches for reuse. The charges of a call escape to the Store, an interface, and
// would otherwise be allocated on every call.
var batches = sync.Pool{New: func() any {
	b := new(batch)
	b.charges, b.rules, b.ends = b.initial.charges[:0], b.initial.rules[:0], b.initial.ends[:0]
	return b
}}

func (b *batch) free() {
	if cap(b.charges) > 64 {
		return
	}
	// The elements are not cleared: they are few, and the garbage collector empties the pool.
	b.charges, b.rules = b.charges[:0], b.rules[:0]
	if b.blocked || len(b.ends)+len(b.places) > 0 {
		b.ends, b.places, b.blocked = b.ends[:0], b.places[:0], false
	}
	batches.Put(b)
}

// check returns an error if a is invalid.
func (a *Ask) check() error {
	switch {
	case a.Limiter == nil:
		return invalidAsk("an ask has no limiter")
	case a.Key == "":
		return ErrEmptyKey
	case a.Cost < 0:
		return fmt.Errorf("%w: %d", ErrNegativeCost, a.Cost)
	case a.MaxDelay < 0:
		return invalidAsk(fmt.Sprintf("a MaxDelay of %v", a.MaxDelay))
	}
	return nil
}

// takesBucket reports whether a is valid and its Store may decide it with TakeBucket, if its only
// rule is a bucket.
func (a *Ask) takesBucket() bool {
	return a.Limiter != nil && a.Limiter.buckets != nil && a.Key != "" && a.Cost >= 0 && a.MaxDelay == 0
}

// sameChoice reports whether the limits of a and o are chosen by the same limiter, key and plan.
func (a Ask) sameChoice(o Ask) bool {
	return a.Limiter == o.Limiter && a.Key == o.Key && a.Plan == o.Plan
}

// fill adds the charges of asks. rules, unless nil, are those of the only ask. The Store does not check
// charges: New has checked the rules, and fill checks the rest.
func (b *batch) fill(ctx context.Context, rules []Rule, asks []Ask) error {
	if len(asks) != 1 {
		return b.fillTogether(ctx, asks)
	}
	a := &asks[0]
	if a.Limiter == nil || a.Key == "" || a.Cost < 0 || a.MaxDelay < 0 {
		return a.check()
	}
	if rules == nil {
		var err error
		if rules, err = a.Limiter.rulesFor(ctx, a.Key, a.Plan); err != nil {
			return err
		}
	}
	if b.add(a, rules, driver.Spend); len(b.charges) < len(b.rules) {
		b.merge()
	}
	return nil
}

// fillTogether is fill for any number of asks.
func (b *batch) fillTogether(ctx context.Context, asks []Ask) error {
	if len(asks) == 0 {
		return invalidAsk("there is none")
	}
	for i := range asks {
		a := &asks[i]
		if err := a.check(); err != nil {
			return err
		}
		if a.Limiter.store != asks[0].Limiter.store {
			return invalidAsk(fmt.Sprintf("asks 0 and %d have different stores", i))
		}
	}
	var few struct {
		views [4]view
		sets  [4]*ruleSet
		rules [4][]Rule
	}
	views, sets, rules := few.views[:0], few.sets[:0], few.rules[:0]
	err := replacing.consistent(func() error {
		views, sets = views[:0], sets[:0]
		for i := range asks {
			if j := slices.IndexFunc(asks[:i], asks[i].sameChoice); j >= 0 { // the function of Choose might choose another view now
				views, sets = append(views, views[j]), append(sets, sets[j])
				continue
			}
			v, err := asks[i].Limiter.choose(ctx, asks[i].Key, asks[i].Plan)
			if err != nil {
				return err
			}
			views, sets = append(views, v), append(sets, v.ruleSet())
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range views {
		rules = append(rules, views[i].planned(sets[i]))
	}
	for i := range asks {
		for j := range i {
			if asks[i].Key == asks[j].Key && conflict(rules[i], rules[j]) {
				return invalidAsk(fmt.Sprintf("asks %d and %d have different limits for one rule and key", j, i))
			}
		}
		b.add(&asks[i], rules[i], driver.Spend)
		b.ends = append(b.ends, len(b.rules))
	}
	b.merge()
	return nil
}

// conflict reports whether rules and others have a rule of the same name with different limits.
func conflict(rules, others []Rule) bool {
	for _, r := range rules {
		for _, o := range others {
			if r.d == o.d || r.Name() != o.Name() {
				continue
			}
			known := o.d.Definition
			known.Plan = r.d.Plan // plans with equal limits are not in conflict
			if !r.d.Definition.Equal(known) {
				return true
			}
		}
	}
	return false
}

// add appends a charge for each rule of a, except those whose limits are never charged. Its op is
// op, or Peek if a.Peek is set.
func (b *batch) add(a *Ask, rules []Rule, op driver.Op) {
	if a.Peek {
		op = driver.Peek
	}
	for i := range rules {
		if rules[i].d.compiled == nil {
			b.addUncharged(rules[i])
			continue
		}
		r := rules[i].inForce()
		b.rules = append(b.rules, r)
		b.charges = append(b.charges, driver.Charge{})
		c := &b.charges[len(b.charges)-1]
		c.Key, c.Rule, c.Op, c.Cost, c.MaxDelay = a.Key, r.d.compiled, op, max(a.Cost, 1), a.MaxDelay
	}
}

// addUncharged adds r, whose limit is Unlimited or Blocked. Inlined, it would slow down every add.
//
//go:noinline
func (b *batch) addUncharged(r Rule) {
	b.rules = append(b.rules, r)
	b.blocked = b.blocked || r.Limit() == Blocked && !r.d.Shadow
}

// merge combines the charges for the same rule and key, because a call of a Store must not contain
// two of them, and sets b.places.
func (b *batch) merge() {
	kept, next := b.charges[:0], 0
	for i, r := range b.rules {
		if r.d.compiled == nil {
			b.places = append(b.places, -1)
			continue
		}
		c := b.charges[next]
		next++
		at := 0
		for at < len(kept) && !kept[at].Meets(&c) {
			at++
		}
		if at == len(kept) {
			kept = append(kept, c)
		} else {
			if absorb(&kept[at], &c); !c.Rule.Equivalent(kept[at].Rule) { // an elastic limit has changed meanwhile
				b.rules[i] = b.rules[slices.Index(b.places, at)]
			}
		}
		b.places = append(b.places, at)
	}
	b.charges = kept
}

// place returns the index of the charge of the i-th rule, or -1 if its limit is never charged.
func (b *batch) place(i int) int {
	if len(b.places) > 0 {
		return b.places[i]
	}
	return i
}

// ask returns the index of the ask of the i-th rule.
func (b *batch) ask(i int) (ask int) {
	for len(b.ends) > 0 && i >= b.ends[ask] {
		ask++
	}
	return ask
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
