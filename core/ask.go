package core

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/core/internal/bounds"
)

// An Ask is an argument of [AllowTogether] and [ReserveTogether]: a limiter, a key and a cost.
//
// A negative cost is an [ErrNegativeCost], here and in all other calls. A cost of zero depends on the call,
// because most of them get a number that was computed:
//
//   - In an Ask it is the zero value, and means 1.
//   - [Limiter.AllowN], [Limiter.Reserve] and the option gate.Cost ask for nothing: they are a
//     [Limiter.Peek], and deny if not even one unit is left.
//   - [Limiter.ReserveAtMost] returns an [ErrInvalidAsk], as its result could be no cost of an event.
//   - [Limiter.WaitN], [Limiter.Debit] and [Limiter.Credit] have nothing to do, and do nothing.
//   - [Reservation.Settle] sets the total cost, and so frees all units.
type Ask struct {
	Limiter *Limiter
	Key     string // not empty
	Cost    int    // see the comment of Ask; without Spec.ByCost, an InFlight takes one place for any cost
	Plan    string // the plan whose limits apply, as in [Limiter.Plan]; empty means that of Limiter
	// If a leaky bucket would delay the event for longer than MaxDelay, the event is denied. Zero
	// means no bound. A value below a microsecond accepts no delay.
	MaxDelay time.Duration
	// A Peek charges nothing. If its Cost would not fit, the whole decision is denied.
	Peek bool

	attempt attempt // see event.observe
	atMost  bool    // see Limiter.ReserveAtMost
}

// An attempt says which decisions about an ask are not the last one about their event. The Observer
// counts them apart.
type attempt uint8

const (
	unlessAllowed attempt = iota + 1 // of Wait
	unlessDenied                     // of a gate that does not know all keys yet
	always
)

// AllowTogether decides about several asks together: it charges every rule of every ask, or none.
// If several asks have the same rule and key, their costs are added and charged once, and all of
// these asks get the same State. If several Peeks have the same rule and key, only the largest cost
// is checked. If another ask charges that rule and key, only that charge is checked, and the Peeks get
// its State. Asks with different limits for the same rule name and key, such as two plans, are an
// [ErrInvalidAsk].
//
// All limiters must have the same Store. Otherwise the error is an [ErrInvalidAsk]. On a Redis
// Cluster, a denied decision about several keys may hold capacity for a moment, or, if its undo is
// lost, until the charge expires, so that another decision is denied, too. Only the burst of a
// bucket can be exceeded, briefly: see redisstore.
func AllowTogether(ctx context.Context, asks ...Ask) (d Decision, err error) {
	e := events.Get().(*event)
	if err = e.decide(ctx, asks, false); err == nil {
		e.conclude(&d, false)
	}
	e.observe(asks, &d, err)
	e.free()
	return d, err
}

// ReserveTogether is [AllowTogether] for an event whose cost may turn out to be more or less.
func ReserveTogether(ctx context.Context, asks ...Ask) (*Reservation, error) {
	r := new(Reservation)
	if _, err := r.Reserve(ctx, asks...); err != nil {
		return nil, err
	}
	return r, nil
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

// sameChoice reports whether the limits of a and o are chosen by the same limiter, key and plan.
func (a *Ask) sameChoice(o *Ask) bool {
	return a.Limiter == o.Limiter && a.Key == o.Key && a.Plan == o.Plan
}

// checkTogether returns an error if an ask is invalid, if the asks are about several Stores, or if they are too many.
func checkTogether(asks []Ask) error {
	if len(asks) == 0 {
		return invalidAsk("there is none")
	}
	for i := range asks {
		if err := asks[i].check(); err != nil {
			return err
		}
		if asks[i].Limiter.store != asks[0].Limiter.store {
			return invalidAsk(fmt.Sprintf("asks 0 and %d have different stores", i))
		}
	}
	if len(asks) > bounds.Charges {
		return invalidAsk(fmt.Sprintf("%d asks in one call, more than %d", len(asks), bounds.Charges))
	}
	return nil
}

// conflict reports whether rules and others have a rule of the same name with different limits.
func conflict(rules, others []Rule) bool {
	for _, r := range rules {
		for _, o := range others {
			if r.d == o.d || r.Name() != o.Name() {
				continue
			}
			if !r.d.sameLimit(o.d) {
				return true
			}
		}
	}
	return false
}

// blockEnds returns the time until the block of r ends, a rule of a that is never charged, or 0 if r is not blocked or
// has no end. ends is that of the choice of r. A block does not end with the choice if r would be blocked without the
// choice, too.
func (a *Ask) blockEnds(r Rule, ends time.Duration) time.Duration {
	if ends <= 0 || ends == Never || r.Limit() != Blocked {
		return 0
	}
	own := a.Limiter.view
	s := own.ruleSet()
	if i := s.find(r); i >= 0 {
		rules, _ := s.of(cmp.Or(a.Plan, own.plan))
		if o := rules[i]; o.Limit() == Blocked && (r.d.spec.Shadow || !o.d.spec.Shadow) {
			return 0
		}
	}
	return ends
}
