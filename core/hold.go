package core

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A hold is the places that a Reservation has taken, apart from the Reservation, which may become garbage.
// The mutex of renewers guards the fields that change. All times are those of sinceStart.
type hold struct {
	store  driver.Store
	local  bool            // the places do not lapse, see driver.Local
	places []driver.Charge // Renews of the places that are not lost
	lease  time.Duration   // the shortest Hold
	ends   time.Duration   // after which the places are not renewed: see MaxHold
	lost   chan struct{}   // closed when a place has lapsed

	renewed time.Duration // when the last renewal, or the decision, was sent
	stopped bool          // the places are not renewed any more
	ended   bool          // the places are freed, or all have lapsed

	unbind  func() bool // ends the effect of the context
	cleanup runtime.Cleanup

	due   time.Duration // not local: when the renewer looks at it next
	index int           // in the heap of the renewer, or in the list of local holds; -1 in neither
	timer *time.Timer   // local: until MaxHold or until the lease ends; or nil
}

// hold holds the places of r, an admitted event. The places are not renewed any more when ctx has ended.
func (r *Reservation) hold(ctx context.Context) {
	shared, begun := r.asks()[0].limiter, r.more.begun
	h := &hold{store: shared.store, local: shared.local, lost: make(chan struct{}), renewed: begun, ends: driver.Never, index: -1}
	for i := range r.charges() {
		c := &r.charges()[i]
		if c.Rule.Algorithm != driver.InFlight || c.Cost == 0 {
			continue
		}
		renew := driver.Charge{Key: c.Key, Rule: c.Rule, Op: driver.Renew, Cost: 1, Receipt: c.Receipt}
		renew.Receipt.Age = 0
		h.places = append(h.places, renew)
		if lease := c.Rule.Hold; h.lease == 0 || lease < h.lease {
			h.lease = lease
		}
	}
	for _, l := range r.lines() {
		if most := l.rule.MaxHoldTime(); l.charge >= 0 && most > 0 {
			h.ends = min(h.ends, begun+most)
		}
	}
	if len(h.places) == 0 {
		return // a shadow that does not fit
	}
	r.more.hold = h
	renewers.add(h)
	h.cleanup = runtime.AddCleanup(r, (*hold).abandon, h)
	if ctx.Done() != nil {
		h.unbind = context.AfterFunc(ctx, h.stop)
	}
}

// stop ends the renewals, so that the places lapse with their lease.
func (h *hold) stop() {
	renewers.mu.Lock()
	defer renewers.mu.Unlock()
	if h.stopped || h.ended {
		return
	}
	h.stopped = true
	if h.local {
		h.after(h.lease, h.lapse)
	}
}

// abandon ends h after its Reservation has become garbage. It runs outside of the bubble of testing/synctest
// that h may belong to, so it uses no timer, no channel and no Store.
func (h *hold) abandon() {
	renewers.mu.Lock()
	defer renewers.mu.Unlock()
	if h.stopped = true; h.local && !h.ended {
		renewers.garbage = append(renewers.garbage, h)
	}
}

// detach undoes the effect of the context of the decision on h.
func (h *hold) detach() {
	if h.unbind == nil || h.unbind() {
		return
	}
	renewers.mu.Lock()
	defer renewers.mu.Unlock()
	h.stopped = false // the context had ended
	if h.local {
		h.watch(sinceStart())
	}
}

// end ends h, whose places are about to be freed.
func (h *hold) end() {
	if h.unbind != nil {
		h.unbind()
	}
	h.cleanup.Stop()
	renewers.remove(h)
}

// watch makes local places lapse some time after MaxHold. It is called with the mutex of renewers.
func (h *hold) watch(now time.Duration) {
	if h.timer != nil {
		h.timer.Stop()
	}
	if h.ends != driver.Never {
		h.after(h.ends-now, h.stop)
	}
}

func (h *hold) after(d time.Duration, f func()) {
	if h.timer != nil {
		h.timer.Stop()
	}
	h.timer = time.AfterFunc(d, f)
}

// lapse frees local places whose lease has ended.
func (h *hold) lapse() {
	renewers.mu.Lock()
	lapsed := h.stopped && !h.ended // otherwise detach or end was faster
	if lapsed {
		renewers.end(h)
		h.lose()
	}
	renewers.mu.Unlock()
	if lapsed {
		h.free()
	}
}

// free frees local places.
func (h *hold) free() {
	undos := slices.Clone(h.places)
	for i := range undos {
		undos[i].Op = driver.Undo
	}
	_ = h.store.Adjust(context.Background(), undos) // of a memory store, which does not fail
}

// schedule sets when the renewer looks at h next: after a quarter to a third of its lease, so that places
// that were taken at one moment are not renewed at one moment; sooner after a renewal that failed; or at
// the end of the lease.
func (h *hold) schedule(now time.Duration, failed bool) {
	end, step := h.renewed+h.lease, h.lease/12
	switch {
	case h.stopped || now >= h.ends:
		h.due = end
	case failed:
		h.due = min(now+step, end)
	default:
		h.due = min(h.renewed+3*step+rand.N(step), end)
	}
}

// answered notes that the Store has answered the renewals of h, which were sent at a time. found tells
// which places had not lapsed.
func (h *hold) answered(sent time.Duration, charges []driver.Charge) {
	h.renewed = sent
	i := -1
	h.keep(func(*driver.Charge) bool {
		i++
		return charges[i].Verdict.Found
	})
}

// keep forgets the places for which had returns false: they have lapsed.
func (h *hold) keep(had func(*driver.Charge) bool) {
	kept := h.places[:0]
	for i := range h.places {
		if had(&h.places[i]) {
			kept = append(kept, h.places[i])
		}
	}
	if len(kept) < len(h.places) {
		h.lose()
	}
	h.places = kept
}

// lose reports that a place has lapsed.
func (h *hold) lose() {
	select {
	case <-h.lost:
	default:
		close(h.lost)
	}
}
