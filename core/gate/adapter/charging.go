package adapter

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weir-go/weir/core"
)

// A charging holds the asks of a request while its keys are found. Usually all keys are
// found, and take charges all asks in one call of the Store. The asks of the known keys are
// charged earlier if one of these keys is exhausted (takeKnown) or if another key is missing
// (takeRejected): with a reservation that later asks extend. After an error of the Store a
// charging must not be used again.
type charging struct {
	*record
	cost  int
	asks  []core.Ask // of the keys that are found, each limiter and key once
	taken int        // the number of asks that a reservation has decided
}

// denied reports whether the asks that were charged early are denied.
func (c *charging) denied() bool { return c.reservation != nil && !c.decision.Allowed }

// take decides about all asks, when all keys are known.
func (c *charging) take(ctx context.Context) (err error) {
	before := c.taken
	switch {
	case before > 0 || c.gate.reserves:
		err = c.reserve(ctx, c.asks[before:]...)
	case len(c.asks) == 1 && c.gate.options.MaxDelay == 0:
		c.key = c.asks[0].Key
		c.decision, err = c.asks[0].Limiter.Allow(ctx, c.key)
	default:
		c.key, c.more = c.asks[0].Key, append(c.more, c.asks[1:]...)
		c.decision, err = core.AllowTogether(ctx, c.asks...)
	}
	if err != nil {
		return err
	}
	if before > 0 && (!c.decision.Allowed || c.cost == 0) {
		c.refund()
	}
	c.remember(false)
	return nil
}

// takeKnown charges the keys that are known so far. They are charged at least 1: if
// another key turns out to be missing, a cost of zero must not make the request free.
func (c *charging) takeKnown(ctx context.Context) error {
	for i := c.taken; i < len(c.asks); i++ {
		c.asks[i].Peek = false
	}
	return c.reserve(ctx, c.asks[c.taken:]...)
}

// takeRejected charges a request for which the key function of l has failed with the error
// missing. It charges the keys that are known and, unless they are denied, the partial key of
// the error, if there is one. If the partial key is denied, the known keys stay charged,
// because the work of the key function is done by then. The end of the request's context
// does not prevent the charge: otherwise a client could avoid it by hanging up.
func (c *charging) takeRejected(l *core.Limiter, missing error) error {
	ctx := context.WithoutCancel(c.Context)
	if err := c.takeKnown(ctx); err != nil {
		return err
	}
	c.remember(true)
	var partial interface {
		error
		PartialKey() string
	}
	if !errors.As(missing, &partial) {
		return nil
	}
	return c.reserve(ctx, core.Ask{Limiter: l, Key: partial.PartialKey(), Cost: c.cost, MaxDelay: c.gate.options.MaxDelay})
}

// reserve charges asks in addition to those that are charged already.
func (c *charging) reserve(ctx context.Context, asks ...core.Ask) (err error) {
	switch {
	case len(asks) == 0:
		return nil
	case c.reservation == nil:
		c.reservation, err = core.ReserveTogether(ctx, asks...)
	default:
		err = c.reservation.Extend(ctx, asks...)
	}
	if err == nil {
		c.taken, c.decision = len(c.asks), c.reservation.Decision()
	}
	return err
}

// refund refunds the asks that were charged early.
func (c *charging) refund() {
	ctx := context.WithoutCancel(c.Context)
	if err := c.reservation.Refund(ctx); err != nil {
		c.gate.journal.warn(ctx, "weir: what a request took could not be given back", err, http.StatusTooManyRequests)
	}
}

// remember adds the keys that are denied to the exhausted ones. After a request that is
// rejected it adds those that have nothing left, too. It does not after one that is
// admitted: a key with a limit of one a second has nothing left after every request, and
// would cost two calls of the Store each time.
func (c *charging) remember(rejected bool) {
	g := c.gate
	if g.exhausted == nil || c.decision.Allowed && !rejected {
		return
	}
	at := 0 // in the States
	for i := range c.asks {
		a, exhausted, reset := &c.asks[i], false, time.Duration(0)
		n := g.place(a.Limiter)
		for range g.asks[n].rules {
			s := c.decision.State(at)
			at++
			if !s.Rule.IsShadow() && !s.Unknown && (!s.Allowed || rejected && s.Remaining < max(a.Cost, 1)) {
				exhausted, reset = true, max(reset, s.ResetAfter)
			}
		}
		if exhausted && n < len(g.asks)-1 { // no key function follows the last key
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
