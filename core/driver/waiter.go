package driver

import (
	"cmp"
	"slices"
	"time"
)

// A Waiter is a caller who waits for places of in-flight rules. The callers of one Limiter and key in a process are a
// queue, of which only the first one asks. Its Spends have its Waiter.
//
// If the places that are free do not suffice, the State keeps the queue for 2 s, or until its next Spend. Places that the
// queues in front of a Spend need are not free for it: those whose callers came before, or all if the Spend has no
// Waiter. A queue needs no places beyond the limit of its caller. Callers therefore get places in the order of arrival,
// also if they need different numbers of them. An admitted Spend leaves the next caller of its queue in the State. An Undo
// with the Waiter removes the queue. A State keeps at most 64 queues, those that came first. A charge of a shadow rule or
// with AtMost has no Waiter.
type Waiter struct {
	Queue  int64         // identifies the queue: 1 to 2^53-2
	Age    time.Duration // the time for which the caller has waited, by its own clock
	Next   int           // the cost of the next caller of the queue; 0 if there is none
	Behind time.Duration // how much later the next caller came
	Known  bool          // the caller has asked before, or was the next one: its arrival in the State counts if it is earlier
}

const (
	// maxQueues is the largest number of queues of a State.
	maxQueues = 64
	// queueHold is the time in microseconds after which a State forgets a queue that has not asked again. A caller
	// asks at least once a second.
	queueHold = 2_000_000
	maxQueue  = 1<<53 - 1
	// wokenBit says in a run of a State that a queue was woken.
	wokenBit = 1 << 62
)

// A queued is the first caller of a queue in a State. Times are in microseconds.
type queued struct {
	came, queue, expires, cost int64
	limit                      int64 // the Capacity of the rule of the caller
	woken                      bool  // and has not asked again
}

func (q queued) compare(o queued) int {
	return cmp.Or(cmp.Compare(q.came, o.came), cmp.Compare(q.queue, o.queue))
}

// queues returns the queues of s that have not expired, in the order of arrival.
func queues(s State, now int64) (all []queued) {
	runs, _ := parts(s)
	for pair := range slices.Chunk(runs, 2) {
		if q := queuedOf(pair); q.live(now) {
			all = append(all, q)
		}
	}
	return all
}

// live reports whether q has not expired. If the clock has stepped back, a queue may end too late, and counts as expired.
func (q queued) live(now int64) bool { return now < q.expires && q.expires <= now+queueHold }

// queuedOf returns the queue in two runs of a State.
func queuedOf(pair []run) queued {
	n := pair[1].n
	return queued{pair[0].at, pair[0].n, pair[1].at, n & (1<<costBits - 1), n &^ wokenBit >> costBits, n&wokenBit != 0}
}

// putQueues returns s with the given queues in place of its own.
func putQueues(s State, all []queued) State {
	runs := make([]run, 0, 2*len(all))
	for _, q := range all {
		n := q.limit<<costBits | q.cost
		if q.woken {
			n |= wokenBit
		}
		runs = append(runs, run{q.came, q.queue}, run{q.expires, n})
	}
	_, taken := parts(s)
	return putRuns(s, runs, taken)
}

// needed returns taken and the places that q needs besides, up to the limit of its caller: others may have larger limits,
// and places that q cannot get are free for them.
func (q queued) needed(taken int64) int64 { return max(taken, min(taken+q.cost, q.limit)) }

// ahead returns taken and the places that the queues of s need in front of w, or in front of a caller who does not wait, and
// the time until the last of these queues expires.
func (p *places) ahead(s State, now, taken int64, w *Waiter) (needed, expires int64) {
	all := queues(s, now)
	var own queued
	if w != nil {
		own = p.queued(all, w, now, 0)
	}
	for _, q := range all {
		if w == nil || q.queue != own.queue && q.compare(own) < 0 {
			taken, expires = q.needed(taken), max(expires, q.expires-now)
		}
	}
	return taken, expires
}

// queued returns the caller w, whose event costs cost. all may have its queue: if that is the caller, the
// earlier arrival counts, because the time until an ask arrives differs from one to the next.
func (p *places) queued(all []queued, w *Waiter, now, cost int64) queued {
	own := queued{max(0, now-w.Age.Microseconds()), w.Queue, now + queueHold, cost, p.events, false}
	i := slices.IndexFunc(all, func(q queued) bool { return q.queue == own.queue })
	if i >= 0 && w.Known {
		own.came = min(own.came, all[i].came)
	}
	return own
}

// wait changes the queue of w in s, after a decision about its Spend with cost. fits says
// whether the places sufficed or never will, and spent whether they were taken.
func (p *places) wait(s State, r *Reading, now, cost int64, w *Waiter, fits, spent bool) (_ State, changed bool) {
	r.woken = new([]int64)
	all := queues(s, now)
	own := p.queued(all, w, now, cost)
	if spent {
		own.came, own.cost = min(own.came+w.Behind.Microseconds(), now), int64(w.Next)
	}
	all, left := leave(all, own.queue)
	i, _ := slices.BinarySearchFunc(all, own, queued.compare)
	waits := !fits || spent && w.Next > 0
	if waits = waits && own.cost <= p.events && i < maxQueues; waits {
		all = slices.Insert(all, i, own)
		all = all[:min(len(all), maxQueues)]
	} else if !left && len(all) == int(queueCount(s)) {
		return s, false
	}
	return p.wake(putQueues(s, all), now, r.woken), true
}

// leave removes a queue.
func (p *places) leave(s State, now, queue int64, woken *[]int64) State {
	s = putPlaces(s, p.corrected(s, now))
	if all, found := leave(queues(s, now), queue); found {
		s = p.wake(putQueues(s, all), now, woken)
	}
	return s
}

// leave returns all without the queue with an ID, and whether it was there.
func leave(all []queued, id int64) (_ []queued, found bool) {
	i := slices.IndexFunc(all, func(q queued) bool { return q.queue == id })
	if i < 0 {
		return all, false
	}
	return slices.Delete(all, i, i+1), true
}

// wake appends the queues of s that were not woken, and for whose first callers enough places are free, to woken. It changes
// s in place.
func (p *places) wake(s State, now int64, woken *[]int64) State {
	taken := p.taken(s, now)
	need := total(taken)
	runs, _ := parts(s)
	for pair := range slices.Chunk(runs, 2) {
		q := queuedOf(pair)
		if !q.live(now) {
			continue
		}
		if !q.woken && need+q.cost <= q.limit && len(taken) < maxPlaces {
			pair[1].n |= wokenBit
			*woken = append(*woken, q.queue)
		}
		need = q.needed(need)
	}
	return s
}
