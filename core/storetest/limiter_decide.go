package storetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
)

// A reserveFunc is a call that returns a Reservation.
type reserveFunc func(ctx context.Context, asks ...core.Ask) (*core.Reservation, error)

func reserveAtMost(ctx context.Context, asks ...core.Ask) (*core.Reservation, error) {
	return asks[0].Limiter.ReserveAtMost(ctx, asks[0].Key, asks[0].Cost)
}

// decide compares the decision about asks with that of the model. If reserve is nil, it is that of
// AllowTogether or, about one ask, which must have no plan, of Allow, AllowN or Peek.
func (h *limiterHistory) decide(reserve reserveFunc, asks ...modelAsk) {
	h.Helper()
	most := asks[0].cost
	want := decide(&h.oracle, h.now(), reserve != nil, asks...)
	h.note("decide %v, reserved %v: %v", asks, reserve != nil, want.allowed)
	coreAsks := make([]core.Ask, len(asks))
	for i := range asks {
		coreAsks[i] = asks[i].ask()
	}
	coreAsks[0].Cost = most
	var r *core.Reservation
	var got core.Decision
	var err error
	if reserve == nil {
		got, err = allow(coreAsks...)
	} else if r, err = reserve(context.Background(), coreAsks...); err == nil {
		got = r.Decision()
	}
	if want.invalid {
		if h.occurred["invalid"]++; !errors.Is(err, core.ErrInvalidAsk) {
			h.differ("got error %v, want ErrInvalidAsk", err)
		}
		return
	}
	h.must(err)
	if slices.ContainsFunc(want.charges, func(c modelCharge) bool { return len(c.asks) > 1 }) {
		h.occurred["merged"]++
	}
	retryAfter, delay := want.wait()
	if got.Allowed != want.allowed || got.RetryAfter != retryAfter || got.Delay != delay || got.Len() != len(want.states) {
		h.differ("got %v with RetryAfter %v and Delay %v\n\twant Allowed %v, RetryAfter %v, Delay %v, %d states",
			got, got.RetryAfter, got.Delay, want.allowed, retryAfter, delay, len(want.states))
	}
	for i, s := range got.States() {
		h.compare(s, want.states[i], want.periods[i], want.rests[i], want.rules[i])
	}
	if r == nil {
		return
	}
	if h.compareCost(r, want); asks[0].atMost && want.allowed && want.cost() < most {
		h.occurred["at most"]++
		if slices.ContainsFunc(want.rules, func(r limited) bool { return r.places.byCost && r.counts() }) {
			h.occurred["at most by cost"]++
		}
	}
	if len(h.held) > 8 {
		h.release(h.held[0])
		h.held = h.held[1:]
	}
	h.held = append(h.held, &heldReservation{r, want, time.Now()})
}

// allow decides about asks by AllowTogether or, if there is one, by Allow, AllowN or Peek.
func allow(asks ...core.Ask) (core.Decision, error) {
	ctx, a := context.Background(), asks[0]
	switch {
	case len(asks) > 1 || a.Peek && a.Cost > 1:
		return core.AllowTogether(ctx, asks...)
	case a.Peek:
		return a.Limiter.Peek(ctx, a.Key)
	case a.Cost == 1:
		return a.Limiter.Allow(ctx, a.Key)
	}
	return a.Limiter.AllowN(ctx, a.Key, a.Cost)
}
