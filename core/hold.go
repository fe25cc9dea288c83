package core

import (
	"context"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A hold is a place that a Reservation has taken, apart from the Reservation, which may become garbage.
// The mutex of renewers guards the fields that change. All times are those of sinceStart.
type hold struct {
	store driver.Store
	local bool          // the place does not lapse, see driver.Local
	renew driver.Charge // a Renew of the place
	ends  time.Duration // after which the place is not renewed: see MaxHold
	lost  chan struct{} // closed when the place has lapsed; that of the Reservation, unless the rule is a shadow

	renewed time.Duration // when the last renewal, or the decision, was sent
	kept    bool          // the end of the context does not matter: see holds.detach
	stopped bool          // the place is not renewed any more
	ended   bool          // the place is freed or has lapsed
	calling bool          // a call about the place is under way
	failed  bool          // it is not known that the last renewal was executed
	frees   bool          // the event has ended, its release has failed, and renew is an Undo that is repeated
	freed   func()        // is called when frees ends with a reply

	due   time.Duration // not local: when the renewer looks at it next
	index int           // in a heap of the renewer, or in the list of local holds; -1 in neither
	timer *time.Timer   // local: until MaxHold or until the lease ends; or nil
}

// holds are the places of a Reservation.
type holds struct {
	places  []*hold
	lost    chan struct{} // closed when a place of an enforced rule has lapsed
	unbind  func() bool   // ends the effect of the context
	cleanup runtime.Cleanup
}

// hold holds the places of r, an admitted event. They are not renewed any more when ctx has ended.
func (r *Reservation) hold(ctx context.Context) {
	shared, begun := r.asks()[0].limiter, r.more.begun
	all := &holds{lost: make(chan struct{})}
	for i := range r.charges() {
		c := &r.charges()[i]
		if c.Rule.Algorithm != driver.InFlight || c.Cost == 0 { // a shadow that does not fit
			continue
		}
		h := &hold{
			store: shared.store, local: shared.local, lost: all.lost, renewed: begun, ends: driver.Never, index: -1,
			renew: driver.Charge{Key: c.Key, Rule: c.Rule, Op: driver.Renew, Cost: 1, Receipt: c.Receipt},
		}
		if h.renew.Receipt.Age = 0; c.Rule.Shadow {
			h.lost = make(chan struct{})
		}
		for _, l := range r.lines() {
			if most := l.rule.MaxHoldTime(); int(l.charge) == i && most > 0 && most < driver.Never/2 {
				h.ends = min(h.ends, begun+most)
			}
		}
		all.places = append(all.places, h)
	}
	if len(all.places) == 0 {
		return
	}
	r.more.holds = all
	renewers.add(all.places)
	all.cleanup = runtime.AddCleanup(r, renewers.abandon, all.places)
	if ctx.Done() != nil {
		places := all.places
		all.unbind = context.AfterFunc(ctx, func() { renewers.contextEnded(places) })
	}
}

// detach undoes the effect of the context of the decision.
func (a *holds) detach() {
	if a.unbind != nil && !a.unbind() { // the context has ended, and contextEnded may not have begun; or it is detached
		renewers.keep(a.places)
	}
}

// end ends the renewals of places that are about to be freed. It reports whether they have not ended before.
func (a *holds) end() (ended bool) {
	if a.unbind != nil {
		a.unbind()
	}
	a.cleanup.Stop()
	return renewers.remove(a.places)
}

// lease returns the time for which the place lasts without a renewal.
func (h *hold) lease() time.Duration { return h.renew.Rule.Hold }

// sharesState reports whether h and o are places of one key and rule.
func (h *hold) sharesState(o *hold) bool {
	return h.renew.Key == o.renew.Key && h.renew.Rule.ID == o.renew.Rule.ID
}

// watch sets the timer of a local place. It is called with the mutex, as are the following methods.
func (h *hold) watch(now time.Duration) {
	if h.timer != nil {
		h.timer.Stop()
	}
	switch {
	case h.stopped:
		h.timer = time.AfterFunc(h.lease(), func() { renewers.lapse(h) })
	case h.ends != driver.Never:
		h.timer = time.AfterFunc(h.ends-now, func() { renewers.stop(h) })
	}
}

// freeInterval is the time after which a release that failed is repeated.
const freeInterval = 250 * time.Millisecond

// schedule sets when the renewer looks at h next: after a third of its lease or a little later, so that
// places that were taken at one moment are not renewed at one moment; sooner after a renewal that failed;
// or at the end of the lease.
func (h *hold) schedule(now time.Duration) {
	step := h.lease() / 12
	switch {
	case h.frees:
		h.due = min(now+min(step, freeInterval), h.end())
	case h.stopped || now >= h.ends:
		h.due = h.end()
	case h.failed:
		h.due = min(now+step, h.end())
	default:
		h.due = min(h.renewed+4*step+rand.N(step), h.end())
	}
}

// end returns the time at which the place lapses unless it is renewed. It does not lapse before.
func (h *hold) end() time.Duration { return h.renewed + h.lease() }

// lapsed notes that the place has lapsed.
func (h *hold) lapsed() {
	if h.frees {
		return // the event has ended
	}
	h.ended = true
	select {
	case <-h.lost: // with another place of the Reservation
	default:
		close(h.lost)
	}
}

// free frees a local place. It is called without the mutex.
func (h *hold) free() {
	undo := h.renew
	undo.Op = driver.Undo
	_ = h.store.Adjust(context.Background(), []driver.Charge{undo}) // in this process, so it does not fail
}
