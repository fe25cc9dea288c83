// Package hold renews the places of in-flight rules that this process holds, until their events end.
package hold

import (
	"context"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A Hold is a place that a Reservation has taken, apart from the Reservation, which may become garbage.
// The mutex of renewers guards the fields that change. All times are those of Now.
type Hold struct {
	store driver.Store
	local bool          // the place does not lapse, see driver.Description
	renew driver.Charge // a Renew of the place
	ends  time.Duration // after which the place is not renewed: see MaxHold
	lost  chan struct{} // closed when the place has lapsed; that of the Reservation, unless the rule is a shadow

	renewed time.Duration // when the last renewal, or the decision, was sent
	kept    bool          // the end of the context does not matter: see Holds.Detach
	stopped bool          // the place is not renewed any more
	ended   bool          // the place is freed or has lapsed
	calling bool          // a call about the place is under way
	failed  bool          // it is not known that the last renewal was executed
	frees   bool          // the event has ended, its release has failed, and renew is an Undo that is repeated

	due   time.Duration // not local: when the renewer looks at it next
	index int           // in a heap of the renewer, or in the list of local holds; -1 in neither
	timer *time.Timer   // local: until MaxHold or until the hold ends; or nil
}

// Holds are the places of a Reservation.
type Holds struct {
	places  []*Hold
	lost    chan struct{} // closed when a place of an enforced rule has lapsed
	unbind  func() bool   // ends the effect of the context
	cleanup runtime.Cleanup
}

// New returns a Hold of the place that c, a Spend, has taken in s at begun. It is renewed until ends. If local is set, it
// does not lapse, see [driver.Description].
func New(s driver.Store, local bool, c *driver.Charge, begun, ends time.Duration) *Hold {
	h := &Hold{
		store: s, local: local, renewed: begun, ends: ends, index: -1,
		renew: driver.Charge{Key: c.Key, Rule: c.Rule, Op: driver.Renew, Cost: 1, Receipt: c.Receipt},
	}
	h.renew.Receipt.Age = 0
	return h
}

// Start renews places until ctx ends, owner is garbage or [Holds.End] is called.
func Start[T any](ctx context.Context, owner *T, places []*Hold) *Holds {
	all := &Holds{places: places, lost: make(chan struct{})}
	for _, h := range places {
		if h.lost = all.lost; h.renew.Rule.Shadow {
			h.lost = make(chan struct{})
		}
	}
	renewers.add(places)
	all.cleanup = runtime.AddCleanup(owner, renewers.abandon, places)
	if ctx.Done() != nil {
		all.unbind = context.AfterFunc(ctx, func() { renewers.contextEnded(places) })
	}
	return all
}

// Lost returns the channel that is closed when a place of an enforced rule has lapsed.
func (a *Holds) Lost() <-chan struct{} { return a.lost }

// Free frees the place of c, whose release has failed, in the background: it repeats the Undo until it has a reply, or
// until the hold has ended.
func (a *Holds) Free(c *driver.Charge) {
	for _, h := range a.places {
		if h.renew.Key == c.Key && h.renew.Rule.ID == c.Rule.ID {
			renewers.free(h)
		}
	}
}

// Sweep frees the places in s, a local Store, whose owners are garbage.
func Sweep(s driver.Store) { renewers.sweep(s) }

// Held returns the places of key in the states of the rules with ids, if s is a local Store.
func Held(s driver.Store, key string, ids []uint64) []*Hold { return renewers.held(s, key, ids) }

// Lose ends places that a Reset has freed.
func Lose(places []*Hold) { renewers.lose(places) }

// Now returns the time since the program was started, by its monotonic clock. It takes a third less time than
// [time.Now].
func Now() time.Duration { return time.Since(start) }

var start = time.Now()

// Detach undoes the effect of the context of the decision.
func (a *Holds) Detach() {
	if a.unbind != nil && !a.unbind() { // the context has ended, and contextEnded may not have begun; or it is detached
		renewers.keep(a.places)
	}
}

// End ends the renewals of places that are about to be freed.
func (a *Holds) End() {
	if a.unbind != nil {
		a.unbind()
	}
	a.cleanup.Stop()
	renewers.remove(a.places)
}

// length returns the time for which the place lasts without a renewal.
func (h *Hold) length() time.Duration { return h.renew.Rule.Hold }

// sharesState reports whether h and o are places of one key and rule.
func (h *Hold) sharesState(o *Hold) bool {
	return h.renew.Key == o.renew.Key && h.renew.Rule.ID == o.renew.Rule.ID
}

// watch sets the timer of a local place. It is called with the mutex, as are the following methods.
func (h *Hold) watch(now time.Duration) {
	if h.timer != nil {
		h.timer.Stop()
	}
	switch {
	case h.stopped:
		h.timer = time.AfterFunc(h.length(), func() { renewers.lapse(h) })
	case h.ends != driver.Never:
		h.timer = time.AfterFunc(h.ends-now, func() { renewers.stop(h) })
	}
}

// freeInterval is the time after which a release that failed is repeated.
const freeInterval = 250 * time.Millisecond

// schedule sets when the renewer looks at h next: after a third of its hold or a little later, so that
// places that were taken at one moment are not renewed at one moment; sooner after a renewal that failed;
// or at the end of the hold.
func (h *Hold) schedule(now time.Duration) {
	step := h.length() / 12
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
func (h *Hold) end() time.Duration { return h.renewed + h.length() }

// lapsed notes that the place has lapsed.
func (h *Hold) lapsed() {
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
func (h *Hold) free() {
	undo := h.renew
	undo.Op = driver.Undo
	_ = h.store.Adjust(context.Background(), []driver.Charge{undo}) // in this process, so it does not fail
}
