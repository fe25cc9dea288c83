package adapter

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate"
	"github.com/weir-go/weir/core/gate/internal/request"
)

// A record is the context of a request that a gate has decided. It is one
// allocation for the context, the decision and the room for the field values.
//
// One without a decision stands for a gate that has let the request through
// undecided.
type record struct {
	context.Context
	outer    *record // of the gate around this one
	gate     *Gate
	versions versions // of the fields that tell about the decision
	decision core.Decision

	// The charges that Settle changes: a reservation, or the asks, and in extra the cost
	// beyond 1 that was charged to each.
	reservation *core.Reservation
	key         string     // of the first ask, which is the gate's first
	more        []core.Ask // from the second on
	extra       atomic.Int64

	values [2]string
}

func newRecord(ctx context.Context, g *Gate) *record {
	r := &record{Context: ctx, outer: recordOf(ctx), gate: g, versions: g.versions}
	if g.options.Inherits && r.outer != nil {
		r.versions |= r.outer.versions
	}
	return r
}

func (r *record) Value(key any) any {
	if _, ok := key.(request.Key); ok {
		return r
	}
	return r.Context.Value(key)
}

func recordOf(ctx context.Context) *record {
	r, _ := ctx.Value(request.Key{}).(*record)
	return r
}

// Outer returns the record of the gate around this one, or nil.
func (r *record) Outer() request.Record {
	if r.outer == nil {
		return nil
	}
	return r.outer
}

// Decision returns the decision of the gate, without States if it let the request through
// undecided.
func (r *record) Decision() *core.Decision { return &r.decision }

// Settle sets the total cost of a request that was admitted: see [gate.Settle].
func (r *record) Settle(cost int) error {
	if r.reservation != nil {
		return r.reservation.Settle(context.WithoutCancel(r.Context), cost)
	}
	if cost < 0 {
		return fmt.Errorf("%w: %d", core.ErrNegativeCost, cost)
	}
	for {
		extra := r.extra.Load()
		charged := extra + 1
		switch {
		case int64(cost) == charged:
			return nil
		case int64(cost) < charged:
			return fmt.Errorf("%w: it was charged %d, and %d is less", gate.ErrNotReserved, charged, cost)
		}
		if r.extra.CompareAndSwap(extra, int64(cost)-1) {
			return r.charge(cost - int(charged))
		}
	}
}

// charge charges n to every ask.
func (r *record) charge(n int) error {
	ctx := context.WithoutCancel(r.Context)
	err := r.gate.asks[0].limiter.Debit(ctx, r.key, n)
	for _, a := range r.more {
		err = errors.Join(err, a.Limiter.Debit(ctx, a.Key, n))
	}
	return err
}

// leave gives back the places in queues of a client that has gone, and nothing
// else: if other rules came back too, sending and hanging up would be free.
func (r *record) leave() {
	if r.reservation == nil {
		return
	}
	ctx := context.WithoutCancel(r.Context)
	if err := r.reservation.LeaveQueue(ctx); err != nil {
		r.gate.journal.warn(ctx, "weir: the place of a client that has gone could not be given back", err, gone.status)
	}
}

// RegisterRequestKey is for adapters of frameworks whose own context does not ask the
// context of the request: it makes [gate.FromContext], [gate.DecisionsFrom] and [gate.Settle]
// look for the *http.Request under key as well.
func RegisterRequestKey(key any) { request.RegisterKey(key) }
