package storetest

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest/internal/oracle"
)

func isInFlight(algorithm int) bool { return modelAlgorithms[algorithm].Name == "in_flight" }

// modelPlaces models the options of a core.InFlight. It is zero for other rules.
type modelPlaces struct {
	hold    time.Duration
	byCost  bool
	lasting bool     // the Store is local
	upTo    float64  // the factor of Elastic, or zero
	spare   *float64 // the signal of Elastic: 0 or 1, which needs no hysteresis
}

// places returns random options. Package core renews the places of a Store that is not local by the clock
// of this process, after a quarter of Hold or later, which must not happen within a history. In the Store,
// they lapse by its own clock, which the history moves.
func (h *limiterHistory) places() modelPlaces {
	return modelPlaces{
		hold: draw(h, 10*time.Minute, 15*time.Minute), byCost: h.one(2), lasting: driver.Describe(h.Store).Local, upTo: draw(h, 0, 0, 0.3, 0.5), spare: &h.spare,
	}
}

// modify returns r with the options of p.
func (p modelPlaces) modify(r core.Rule) core.Rule {
	if p.hold > 0 {
		r = r.Hold(p.hold).MaxHold(time.Hour)
	}
	if p.byCost {
		r = r.ByCost()
	}
	if p.upTo > 0 {
		r = r.Elastic(func() float64 { return *p.spare }, p.upTo)
	}
	return r
}

func (r *limited) isInFlight() bool { return isInFlight(r.algorithm) }

// takesOne reports whether an event takes one place of r, whatever it costs.
func (r *limited) takesOne() bool { return r.isInFlight() && !r.places.byCost }

// inForce returns the limit of r, which an elastic rule may have lowered.
func (r *limited) inForce() core.Limit {
	l := r.limit
	if r.places.upTo > 0 && *r.places.spare == 0 && r.counts() {
		l.Events = max(1, int(math.Floor(float64(l.Events)*r.places.upTo+1e-9)))
		l.Burst = l.Events
	}
	return l
}

// acquire compares a call of Acquire or AcquireN with the model if the event is admitted at once.
func (h *limiterHistory) acquire() {
	h.Helper()
	a := modelAsk{view: h.view(), key: h.key(), cost: draw(h, 1, h.cost()), peek: true}
	d := decide(&h.oracle, h.now(), true, a)
	if _, delay := d.wait(); !d.allowed || delay > 0 {
		return
	}
	h.occurred["acquired"]++
	a.peek = false
	n := a.cost
	h.decide(func(ctx context.Context, asks ...core.Ask) (*core.Reservation, error) {
		if n == 1 {
			return asks[0].Limiter.Acquire(ctx, asks[0].Key)
		}
		return asks[0].Limiter.AcquireN(ctx, asks[0].Key, n)
	}, a)
}

// end releases or refunds a reservation.
func (h *limiterHistory) end() {
	h.Helper()
	h.dropOld()
	if len(h.held) == 0 {
		return
	}
	r := draw(h, h.held...)
	if h.one(2) {
		h.note("refund %v", r.model.rules)
		h.must(r.Refund(context.Background()))
		r.model.settle(&h.oracle, h.now(), 0, nil)
		h.free(r.model, "refunded")
		h.compareCost(r.Reservation, r.model)
		return
	}
	h.release(r)
}

// release releases r. The places of a Store that is not local may have lapsed.
func (h *limiterHistory) release(r *heldReservation) {
	h.Helper()
	h.note("release %v", r.model.rules)
	h.must(r.Release(context.Background()))
	h.free(r.model, "released")
	h.compareCost(r.Reservation, r.model)
}

// dropOld releases and forgets old reservations: a Reservation takes its own age for a step back of the
// clock if that stands still.
func (h *limiterHistory) dropOld() {
	h.Helper()
	h.held = slices.DeleteFunc(h.held, func(r *heldReservation) bool {
		old := time.Since(r.since) > time.Second/2
		if old {
			h.release(r)
		}
		return old
	})
}

// numberPlace gives the place of c the number that stores give it: the first time from now on that is free, and the cost.
// After a Reset within a microsecond, two events can have one number if their cost is the same.
func numberPlace(o *oracle.Oracle, now int64, c *oracle.Charge) {
	cost := int64(1)
	if c.Rule.ByCost {
		cost = c.Cost
	}
	for !o.Number(c, now<<costBits|cost) {
		now++
	}
}

// costBits is enough for the cost of any event.
const costBits = 20

// free frees the places of d in the model. ended says how the event has ended.
func (h *limiterHistory) free(d *modelDecision, ended string) {
	for i := range d.charges {
		c := &d.charges[i]
		if !c.rule.isInFlight() || len(c.parts) == 0 {
			continue
		}
		undo := c.parts[0]
		undo.Op, c.parts = oracle.Undo, nil
		h.oracle.Adjust(h.now(), []oracle.Charge{undo})
		if c.Rule.ByCost && c.Cost > 1 {
			h.occurred["ended by cost"]++
		}
		if h.occurred[ended]++; h.now() >= undo.Receipt.At>>costBits+c.Rule.Per && !c.Rule.Lasting {
			h.occurred["lapsed"]++
		}
	}
}
