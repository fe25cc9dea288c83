package core

import (
	"context"
	"time"

	"github.com/weir-go/weir/core/internal/unexported"
)

// functions has the functions of this package that only packages gate and rules need.
type functions struct{}

func init() { unexported.Core = functions{} }

// HasPlans reports whether plans make a difference to l: whether one of its rules has plans, or Choose has
// made it.
func (functions) HasPlans(l *Limiter) bool { return l.pick != nil || len(l.ruleSet().plans) > 0 }

// SharesStore reports whether l and o have the same Store, as AllowTogether requires.
func (functions) SharesStore(l, o *Limiter) bool { return l.store == o.store }

// Clock returns the clock by which the Store of l decides.
func (functions) Clock(l *Limiter) func() time.Time { return l.now }

// Attempt makes a an ask that is not the last one about its event. The Observer counts its decision apart.
func (functions) Attempt(a *Ask) { a.attempt = always }

// AttemptUnlessDenied is Attempt, unless the event is denied.
func (functions) AttemptUnlessDenied(a *Ask) { a.attempt = unlessDenied }

func (functions) ChooseFor(l *Limiter, pick pickFunc) *Limiter { return l.chooseFor(pick) }
func (functions) ReplaceAll(rules map[*Limiter][]Rule, then func()) error {
	return replaceAll(rules, then)
}
func (functions) Off(r Rule) Rule                                    { return r.off() }
func (functions) Key(r *Reservation, l *Limiter) (key string, n int) { return r.key(l) }
func (functions) Forget(r *Reservation, l *Limiter, key string)      { r.forget(l, key) }
func (functions) HasPlaces(r *Reservation) (has, local bool)         { return r.hasPlaces() }
func (functions) RefundDelayed(r *Reservation, ctx context.Context) error {
	return r.refundDelayed(ctx)
}
