package gate

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfunc"
)

// decide calls the key functions of the gate, and charges the keys in one decision, or as [steps] describes.
// first is the limiter of the first key function, and all that of all routes for the same key, or nil. decide
// sets e.Decision, or returns the Rejection of a request about which none could be made, or neither for a
// request that is let through undecided. A denied request has no Rejection yet: see apply.
//
// The returned record, which is rec or another one in its place, has the decision. It has places only if the
// request is admitted.
func (rec *record) decide(ctx context.Context, h http.Header, r *http.Request, first, all *core.Limiter, e *Event) (*record, *Rejection) {
	cost := 1
	if rec.gate.cost != nil {
		cost = rec.gate.cost(ctx, r)
	}
	var few [2]core.Ask
	var s search
	known, complete := s.find(ctx, r, rec.gate, few[:0], cost, first, all)
	if !complete {
		return decideSteps(ctx, rec, h, r, e, cost, slices.Clone(known), s, all)
	}
	return rec, rec.decideAll(h, r, e, known, all)
}

// A search calls the key functions of a gate, one after the other.
type search struct {
	i         int   // the index of the next function or, when find has stopped, of the last one
	last      int   // how many asks are of the last function
	exhausted bool  // a key of the last function is exhausted, and something follows that a denial would save
	err       error // of the last function
}

// find calls the key functions from the i-th on, and adds their asks to known: each limiter, key and plan once, except for
// those of the last function. It stops, which is not complete, after a function that has failed or whose key is exhausted,
// and after each one if the gate reads the body. first and all are as for decide.
func (s *search) find(ctx context.Context, r *http.Request, g *gate, known []core.Ask, cost int, first, all *core.Limiter) (_ []core.Ask, complete bool) {
	for ; s.i < len(g.asks); s.i++ {
		a := &g.asks[s.i]
		known = append(known, core.Ask{})
		next := &known[len(known)-1] // is filled in place: to copy it just after it was written takes 10 ns
		next.Limiter, next.Cost, next.MaxDelay = a.limiter, cost, g.maxDelay
		if s.i == 0 {
			next.Limiter = first
		}
		err := a.identify(ctx, r, next)
		if err != nil && isNotLimited(err) {
			known = known[:len(known)-1]
			continue
		}
		follows := s.i < len(g.asks)-1 || g.readsBody
		s.last, s.exhausted = 1, follows && g.exhausted.has(next.Limiter, next.Key)
		if s.i == 0 && all != nil && all != first && err == nil {
			known, err = a.appendAll(ctx, r, known, all)
			s.last = len(known)
			s.exhausted = s.exhausted || s.last > 1 && follows && g.exhausted.has(all, known[1].Key)
		}
		if s.err = err; err != nil || g.readsBody || s.exhausted {
			return known, false
		}
		if len(known) > 1 {
			known = distinct(known)
		}
	}
	return known, true
}

// decideAll decides about all keys of a request. all is as for decide.
func (rec *record) decideAll(h http.Header, r *http.Request, e *Event, known []core.Ask, all *core.Limiter) *Rejection {
	if len(known) == 0 { // keyfunc.ErrNotLimited
		return nil
	}
	if err := rec.reserve(r.Context(), e, known); err != nil {
		return rec.undecidable(h, r, e, err)
	}
	if rec.gate.exhausted != nil {
		rec.gate.exhausted.addFrom(rec.gate.asks, all, known, &e.Decision, false)
	}
	return nil
}

// undecidable returns the Rejection of a request about which the Store could not decide, or nil if the request
// is let through.
func (rec *record) undecidable(h http.Header, r *http.Request, e *Event, err error) *Rejection {
	e.Decision = core.Decision{}
	return rec.gate.reject(e, h, r, err, storeFailure(r, err, rec.gate.failClosed))
}

// isNotLimited reports whether err says that a request is not limited. The error of an invalid token may
// contain an ErrNotLimited of the function that returns the keys of tokens.
func isNotLimited(err error) bool {
	return errors.Is(err, keyfunc.ErrNotLimited) && !errors.Is(err, keyfunc.ErrNoKey)
}

// distinct removes the last ask of known if another one has its limiter, key and plan. The larger cost
// counts.
func distinct(known []core.Ask) []core.Ask {
	n := len(known) - 1
	for i := range n {
		if o, last := &known[i], &known[n]; sameKey(o, last) {
			if last.Cost > o.Cost {
				*o = *last
			}
			return known[:n]
		}
	}
	return known
}

func sameKey(a, b *core.Ask) bool {
	return a.Limiter == b.Limiter && a.Key == b.Key && a.Plan == b.Plan
}

// reserve decides about asks. It sets the decision of e and, for the option OnDecision, adds the time to that of e.
func (rec *record) reserve(ctx context.Context, e *Event, asks []core.Ask) (err error) {
	var begun time.Time
	if rec.gate.onDecision != nil {
		begun = time.Now()
	}
	if e.Decision, err = rec.reservation.Reserve(ctx, asks...); rec.gate.onDecision != nil {
		e.StoreTime += time.Since(begun)
	}
	return err
}
