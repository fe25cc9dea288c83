package gate

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weir-go/weir/core"
)

// A charging is the asks of a request while its keys are found. Usually take charges all of
// them in one call of the Store. The known ones are charged before, with a reservation that
// the others extend, if one of them is exhausted (takeKnown) or if another key is missing
// (takeRejected). After an error of the Store a charging is of no more use.
type charging struct {
	*record
	cost  int
	asks  []core.Ask // of the keys that are found, each limiter and key once
	taken int        // how many of asks the Store has decided
}

// denied reports whether an ask that was charged early is denied.
func (c *charging) denied() bool { return c.reservation != nil && !c.decision.Allowed }

// take decides about all asks, when all keys are known.
func (c *charging) take(ctx context.Context) (err error) {
	before := c.taken
	switch {
	case before > 0 || c.gate.reserves:
		err = c.reserve(ctx, c.asks[before:]...)
	case len(c.asks) == 1 && c.gate.maxDelay == 0:
		c.key = c.asks[0].Key
		c.decision, err = c.asks[0].Limiter.Allow(ctx, c.key)
	default:
		c.key, c.more = c.asks[0].Key, append(c.more, c.asks[1:]...)
		c.decision, err = core.AllowAll(ctx, c.asks...)
	}
	if err != nil {
		return err
	}
	if before > 0 && (!c.decision.Allowed || c.cost == 0) {
		c.giveBack()
	}
	c.remember(false)
	return nil
}

// takeKnown charges the keys that are known so far. They are charged at least 1: if
// another key turns out to be missing, a cost of zero must not make the request free.
func (c *charging) takeKnown(ctx context.Context) error {
	for i := c.taken; i < len(c.asks); i++ {
		c.asks[i].Cost = max(c.cost, 1)
	}
	return c.reserve(ctx, c.asks[c.taken:]...)
}

// takeRejected charges the keys of a request of which one is missing, with the error
// missing of the key function of l. It does not depend on whether the client is still
// there, or hanging up would be free. A partial key is charged after the others, which
// stay charged if it is denied: it is known only after the key function has had its cost.
func (c *charging) takeRejected(l *core.Limiter, missing error) error {
	ctx := context.WithoutCancel(c.Context)
	if err := c.takeKnown(ctx); err != nil {
		return err
	}
	c.remember(true)
	if c.denied() {
		return nil
	}
	var partial interface {
		error
		PartialKey() string
	}
	if !errors.As(missing, &partial) {
		return nil
	}
	return c.reserve(ctx, core.Ask{Limiter: l, Key: partial.PartialKey(), Cost: max(c.cost, 1), MaxDelay: c.gate.maxDelay})
}

// reserve charges asks, in addition to those that are charged.
func (c *charging) reserve(ctx context.Context, asks ...core.Ask) (err error) {
	switch {
	case len(asks) == 0:
		return nil
	case c.reservation == nil:
		c.reservation, err = core.ReserveAll(ctx, asks...)
	default:
		err = c.reservation.Extend(ctx, asks...)
	}
	if err == nil {
		c.taken, c.decision = len(c.asks), c.reservation.Decision()
	}
	return err
}

// giveBack gives back what the known keys were charged.
func (c *charging) giveBack() {
	ctx := context.WithoutCancel(c.Context)
	if err := c.reservation.Refund(ctx); err != nil {
		c.gate.journal.warn(ctx, "weir: what a request took could not be given back", err, http.StatusTooManyRequests)
	}
}

// remember makes keys exhausted: those that are denied, and after a request without a key
// those that have nothing left, too. Otherwise they are charged with the other keys until
// they are denied: where all requests have their keys, as many need one call of the Store
// as possible.
func (c *charging) remember(rejected bool) {
	g := c.gate
	if g.exhausted == nil {
		return
	}
	at := 0 // in the States
	for i := range c.asks {
		a, exhausted, reset := &c.asks[i], false, time.Duration(0)
		n := g.place(a.Limiter)
		for range g.asks[n].rules {
			s := c.decision.State(at)
			at++
			if !s.Rule.IsShadow() && (!s.Allowed || rejected && s.Remaining < a.Cost) {
				exhausted, reset = true, max(reset, s.ResetAfter)
			}
		}
		if exhausted && n < len(g.asks)-1 { // after the last key there is nothing to save
			g.exhausted.add(n, a.Key, reset)
		}
	}
}

// appendDistinct appends a, unless asks have its limiter and key. All asks of a request
// cost the same, so the one that is there is charged enough.
func appendDistinct(asks []core.Ask, a core.Ask) []core.Ask {
	for i := range asks {
		if asks[i].Limiter == a.Limiter && asks[i].Key == a.Key {
			return asks
		}
	}
	return append(asks, a)
}
