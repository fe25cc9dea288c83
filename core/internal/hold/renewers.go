package hold

import (
	"slices"
	"sync"

	"github.com/weir-go/weir/core/driver"
)

// renewers has all places that this process holds.
var renewers = renewerList{byStore: make(map[driver.Store]*renewer), garbage: make(map[driver.Store][]*Hold)}

type renewerList struct {
	mu      sync.Mutex
	byStore map[driver.Store]*renewer
	locals  []*Hold                  // the local places, at their indexes
	garbage map[driver.Store][]*Hold // those of them whose Reservations are garbage
}

// add makes places last until they are removed.
func (l *renewerList) add(places []*Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range places {
		if h.local {
			h.index = len(l.locals)
			l.locals = append(l.locals, h)
			h.watch(h.renewed)
			continue
		}
		h.schedule(h.renewed)
		l.of(h.store).push(h)
	}
}

// of returns the renewer of s, which runs.
func (l *renewerList) of(s driver.Store) *renewer {
	r := l.byStore[s]
	if r == nil {
		r = newRenewer(s)
		l.byStore[s] = r
		go r.run()
	}
	return r
}

// free frees h, whose release has failed, in the background: it repeats the Undo until it has a reply, or until
// the hold has ended.
func (l *renewerList) free(h *Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.local || !h.ended || h.frees {
		return
	}
	h.renew.Op, h.frees, h.failed = driver.Undo, true, true
	if !h.calling { // otherwise the renewer does it after the call
		h.schedule(Now())
		l.of(h.store).push(h)
	}
}

// remove ends the renewals of places that are about to be freed.
func (l *renewerList) remove(places []*Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range places {
		if h.local {
			l.endLocal(h)
			continue
		}
		h.frees = false
		if h.ended = true; h.index < 0 {
			continue // a renewal is under way
		}
		l.byStore[h.store].remove(h)
	}
}

// endLocal ends h, a local place, unless it has ended. It is called with the mutex.
func (l *renewerList) endLocal(h *Hold) {
	if h.ended {
		return
	}
	h.ended = true
	last := len(l.locals) - 1
	l.locals[h.index] = l.locals[last]
	l.locals[h.index].index = h.index
	l.locals[last] = nil
	l.locals = l.locals[:last]
	if h.timer != nil {
		h.timer.Stop()
	}
}

// stop ends the renewals of h, which lapses at the end of its hold.
func (l *renewerList) stop(h *Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setStopped(h, true)
}

// contextEnded ends the renewals of places, unless keep was faster.
func (l *renewerList) contextEnded(places []*Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range places {
		l.setStopped(h, !h.kept)
	}
}

// keep undoes contextEnded.
func (l *renewerList) keep(places []*Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range places {
		h.kept = true
		l.setStopped(h, false)
	}
}

func (l *renewerList) setStopped(h *Hold, stopped bool) {
	if h.ended || h.stopped == stopped {
		return
	}
	now := Now()
	if h.stopped = stopped; h.local {
		h.watch(now)
	} else if h.index >= 0 {
		l.byStore[h.store].reschedule(h, now)
	}
}

// abandon ends the renewals of places whose Reservation has become garbage. It runs outside of the bubble
// of testing/synctest that they may belong to, so it uses no timer, no channel and no Store. The next
// decision about places in a local Store frees them.
func (l *renewerList) abandon(places []*Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range places {
		if h.stopped = true; h.local && !h.ended {
			l.garbage[h.store] = append(l.garbage[h.store], h)
		}
	}
}

// sweep frees the abandoned places in s, a local Store.
func (l *renewerList) sweep(s driver.Store) {
	l.mu.Lock()
	abandoned := slices.DeleteFunc(l.garbage[s], func(h *Hold) bool { return h.ended })
	delete(l.garbage, s)
	l.mu.Unlock()
	for _, h := range abandoned {
		l.lapse(h)
	}
}

// lapse frees h, a local place whose hold has ended, unless it has ended or is renewed again.
func (l *renewerList) lapse(h *Hold) {
	l.mu.Lock()
	lapsed := h.stopped && !h.ended
	if lapsed {
		l.endLocal(h)
		h.lapsed()
	}
	l.mu.Unlock()
	if lapsed {
		h.free()
	}
}

// held returns the places of key in the states of the rules with ids, if s is a local Store.
func (l *renewerList) held(s driver.Store, key string, ids []uint64) (places []*Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.locals {
		if h.store == s && h.renew.Key == key && slices.Contains(ids, h.renew.Rule.ID) {
			places = append(places, h)
		}
	}
	return places
}

// lose ends places that a Reset has freed.
func (l *renewerList) lose(places []*Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range places {
		if !h.ended {
			l.endLocal(h)
			h.lapsed()
		}
	}
}
