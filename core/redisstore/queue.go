package redisstore

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// A queue sends requests to one server. A request is sent at once if fewer than maxRunning round
// trips are under way. Other requests wait, and the next round trip takes as many of them as
// maxWeight allows. Redis decides them in their order, each as it would alone.
//
// A caller leaves at its deadline. Its request is then not sent, or its outcome is not read.
type queue struct {
	// run executes requests in one round trip and sets their outcomes. If strict is true, it returns
	// before the deadline of ctx, and closes the connection if the server does not reply in time.
	// Otherwise it may take longer.
	run func(ctx context.Context, strict bool, requests []*request)
	// detached means that callers do not run their requests themselves.
	detached bool

	mu      sync.Mutex
	waiting []*request
	running int  // round trips under way whose requests have not missed their deadlines
	hanging int  // round trips under way whose requests have missed their deadlines
	prompt  bool // the last round trip ended before its deadline
	idle    int  // connections that round trips have left idle
}

const (
	// maxRunning is the number of round trips under way. With fewer, the server is idle between
	// them; with more, scripts decide fewer requests.
	maxRunning = 4
	// maxWeight bounds the time for which a round trip occupies the server, to about 250 us, or to one
	// request.
	maxWeight = 128
	// maxWaiting and maxHanging bound the memory that callers occupy during an outage.
	maxWaiting = 10_000
	maxHanging = 64
)

var (
	errWaiting = fmt.Errorf("%d decisions wait for the server", maxWaiting)
	errHanging = fmt.Errorf("%d round trips have no reply", maxHanging)
)

// send executes r, and returns when its outcome is set, or with an error when d ends.
func (q *queue) send(d *deadline, r *request) error {
	if d.err = d.ctx.Err(); d.err != nil {
		return d.err
	}
	r.ctx, r.at = d.ctx, d.at
	ends, ok := d.ctx.Deadline()
	leaves := ok && ends.Before(d.at)
	q.mu.Lock()
	switch {
	case q.hanging >= maxHanging:
		q.mu.Unlock()
		return errHanging
	case q.running < maxRunning && q.prompt && q.idle > 0 && !q.detached && !leaves:
		q.begin()
		q.mu.Unlock()
		q.inline(r)
		return d.outcome(r)
	case q.running < maxRunning:
		q.begin()
		go q.roundTrip([]*request{r})
	case q.full():
		q.mu.Unlock()
		return errWaiting
	default:
		r.queued = time.Now()
		q.waiting = append(q.waiting, r)
	}
	q.mu.Unlock()
	if _, err := wait(d, r.done); err != nil {
		r.left.Store(true)
		return shared(err, r.roundTrip.Load())
	}
	return shared(d.outcome(r), r.roundTrip.Load())
}

// full reports whether maxWaiting requests wait. It removes the first requests if their callers have
// left. It is called with mu.
func (q *queue) full() bool {
	if len(q.waiting) < maxWaiting {
		return false
	}
	now := time.Now()
	i := slices.IndexFunc(q.waiting, func(r *request) bool { return !r.ended(now) })
	if i < 0 {
		i = len(q.waiting)
	}
	q.waiting = slices.Delete(q.waiting, 0, i)
	return i == 0
}

// begin counts a round trip that begins. It is called with mu.
func (q *queue) begin() {
	q.running++
	q.idle = max(0, q.idle-1)
}

// end counts a round trip that has ended, promptly or late. idle says whether it has left an idle
// connection. It is called with mu.
func (q *queue) end(prompt, idle bool) {
	q.running--
	q.prompt = prompt
	if idle {
		q.idle++
	}
}

// inline runs r on the goroutine of its caller, which saves two switches between goroutines. The
// caller leaves with the reply or at the deadline of the decision, so its context must not have an
// earlier deadline. A late reply costs the connection, so the server must have been prompt, and
// there must be an idle connection, because to open one takes several round trips.
func (q *queue) inline(r *request) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(r.ctx), r.at)
	defer func() { // also if a hook ends the goroutine
		prompt := ctx.Err() == nil
		cancel()
		q.mu.Lock()
		defer q.mu.Unlock()
		q.end(prompt, prompt && r.err == nil)
		q.start()
	}()
	q.run(ctx, true, []*request{r})
}

// start runs waiting requests if there is room for a round trip. It is called with mu.
func (q *queue) start() {
	if q.running < maxRunning && q.hanging < maxHanging {
		if requests := q.next(); len(requests) > 0 {
			q.begin()
			go q.roundTrip(requests)
		}
	}
}

// next takes requests of up to maxWeight out of the queue. It is called with mu.
func (q *queue) next() (requests []*request) {
	now, weight, n := time.Now(), 0, 0
	for _, r := range q.waiting {
		if len(requests) > 0 && weight+r.weight > maxWeight {
			break
		}
		n++
		if !r.ended(now) {
			requests, weight = append(requests, r), weight+r.weight
		}
	}
	q.waiting = slices.Delete(q.waiting, 0, n)
	return requests
}

// roundTrip runs requests. After the reply, or if the last deadline passes before it, the next round
// trip may begin.
func (q *queue) roundTrip(requests []*request) {
	last := requests[0]
	for _, r := range requests {
		if r.at.After(last.at) {
			last = r
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(last.ctx))
	defer cancel()
	over, late := false, false
	watchdog := time.AfterFunc(time.Until(last.at), func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if !over {
			late = true
			q.end(false, false)
			q.hanging++
			cancel() // ends the wait for a connection
			q.start()
		}
	})
	q.run(ctx, false, requests)
	idle := last.err == nil
	for _, r := range requests {
		r.done <- struct{}{} // has room for one
	}
	watchdog.Stop()
	runtime.Gosched() // lets these callers ask again, so that the next round trip has more requests
	q.mu.Lock()
	defer q.mu.Unlock()
	over = true
	if late {
		q.hanging--
	} else {
		q.end(true, idle)
	}
	q.start()
}

// length returns the number of waiting requests.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}
