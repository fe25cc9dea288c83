package redisstore

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A backlog sends requests to one server. While little is under way, a request is sent at once, alone.
// The others wait, and share round trips. Redis decides each as it would alone.
//
// The bound is the work under way, which is the time that the server needs for it: at most the
// distance of the server, or 1 ms more for full round trips. The server then always has work. With
// more, requests would wait there instead of here, where they share scripts.
//
// A caller leaves at its deadline. Its request is then not sent unless it is an undo, or its outcome is not read,
// and a place that it has taken is freed.
type backlog struct {
	// run executes requests in one round trip and sets their outcomes. It may take longer than the
	// deadlines of the requests.
	run func(ctx context.Context, requests []*request)
	// runOwn executes a request on the goroutine of its caller. It returns before the deadline of ctx,
	// and closes the connection if the server does not reply in time. It is nil if that is impossible.
	runOwn func(ctx context.Context, requests []*request)
	limit  int // of running
	// idleCheck starts when a deadline has passed and the server has not replied since the round trip began.
	idleCheck *idleCheck

	mu        sync.Mutex
	waiting   lanes
	running   int           // round trips under way, each with a connection, without those forgotten
	late      int           // those of them whose requests have missed their deadlines
	forgotten int           // how often late round trips were forgotten
	work      time.Duration // of the other ones
	idle      int           // connections that prompt round trips have left idle
	distance  distance
}

const (
	// minRunning is the number of round trips that may always be under way. With fewer, a server that
	// is near would be idle between them.
	minRunning = 4
	// Requests are sent at once up to a work of 1/alone of the distance. Then they wait until a round
	// trip ends, and share the next one, which takes less time of both sides.
	alone = 8
	// outage is the time without a prompt round trip after which requests fail at once if all round trips
	// are late. After a short pause of this process or of the server, they wait.
	outage = time.Second
	// maxWork bounds the time for which a round trip occupies the server, unless it has one request.
	maxWork = 250 * time.Microsecond
	// tripWork is the work of a round trip without that of its requests.
	tripWork = 15 * time.Microsecond
)

// ErrOverloaded reports that a decision was not sent, and that nothing was charged, except perhaps
// in another hash slot of a Cluster: it could not have been answered before its deadline, or had
// waited for half of its time, because others were before it; or its context ends sooner than a
// round trip takes; or too many decisions waited. The error is a core.ErrUnavailable, too. Package
// failover calls its backup, and does not count the error as a failure of Redis.
var ErrOverloaded = driver.ErrOverloaded

// send executes r, and returns when its outcome is set, or with an error when d ends.
func (b *backlog) send(d *deadline, r *request) error {
	if d.err = d.ctx.Err(); d.err != nil {
		return d.err
	}
	r.ctx, r.at = d.ctx, d.at
	ends, leaves := d.ctx.Deadline()
	if leaves = leaves && ends.Before(d.at); leaves {
		r.at = ends
	}
	now := time.Now()
	b.mu.Lock()
	switch distance := b.distance.get(now); {
	case b.late >= b.limit && now.Sub(b.distance.replied) >= outage:
		b.mu.Unlock()
		return fmt.Errorf("%d round trips have no reply", b.limit)
	case b.running > b.late && b.distance.isHopeless(r, now, 0): // otherwise r measures the distance again
		b.mu.Unlock()
		return ErrOverloaded
	case !b.room(distance / alone):
		r.since = now
		if !b.waiting.add(r) {
			b.mu.Unlock()
			return ErrOverloaded
		}
	case b.runOwn != nil && b.idle > 0 && !leaves && r.places == nil: // a missed deadline would lose the reply
		t := b.begin(now, r.work)
		b.mu.Unlock()
		b.inline(t, r)
		return d.outcome(r)
	default:
		go b.roundTrip(b.begin(now, r.work), []*request{r})
	}
	b.mu.Unlock()
	if _, err := wait(d, r.done); err != nil {
		if r.leave() {
			return shared(err, r.roundTrip.Load())
		}
		<-r.done
	}
	return shared(d.outcome(r), r.roundTrip.Load())
}

// A trip is a round trip under way.
type trip struct {
	begun time.Time
	work  time.Duration
	ahead time.Duration // the work under way when it began, with its own
	opens bool          // it may open a connection
}

// room reports whether another round trip may begin if the work under way is bounded. It is called
// with mu.
func (b *backlog) room(bound time.Duration) bool {
	return b.running < b.limit && (b.running-b.late < minRunning || b.work < bound)
}

// begin counts a round trip that begins. It is called with mu.
func (b *backlog) begin(now time.Time, work time.Duration) trip {
	work += tripWork
	b.running++
	b.work += work
	t := trip{begun: now, work: work, ahead: b.work, opens: b.idle == 0}
	b.idle = max(0, b.idle-1)
	return t
}

// inline runs r on the goroutine of its caller, which saves two switches between goroutines. The
// caller leaves with the reply or at the deadline of the decision, so its context must not have an
// earlier deadline. A late reply costs the connection, so there must be an idle connection, on which
// the last reply was prompt: to open one takes several round trips.
func (b *backlog) inline(t trip, r *request) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(r.ctx), r.at)
	returned := false
	defer func() { // also if a hook ends the goroutine
		ended, prompt := time.Now(), ctx.Err() == nil
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		b.work -= t.work
		b.end(t, ended, prompt, returned && isReply(r.err))
		if !prompt {
			b.miss(t)
		}
	}()
	b.runOwn(ctx, []*request{r})
	returned = true
}

// roundTrip runs requests. After the reply, or if the last deadline passes before it, other round
// trips may begin.
func (b *backlog) roundTrip(t trip, requests []*request) {
	last := slices.MaxFunc(requests, func(a, b *request) int { return a.at.Compare(b.at) })
	ctx, cancel := context.WithCancel(context.WithoutCancel(last.ctx))
	var state struct { // guarded by mu
		late, over bool
		forgotten  int // when it was late
	}
	watchdog := time.AfterFunc(time.Until(last.at), func() {
		cancel() // ends the wait for a connection
		b.mu.Lock()
		defer b.mu.Unlock()
		if state.over {
			return
		}
		state.late, state.forgotten = true, b.forgotten
		b.late++
		b.work -= t.work
		b.miss(t)
		b.start()
	})
	returned := false
	defer func() { // also if a hook ends the goroutine
		ended, prompt := time.Now(), watchdog.Stop()
		cancel()
		replied := returned && isReply(last.err)
		for _, r := range requests {
			r.finish()
			r.done <- struct{}{} // has room for one
		}
		runtime.Gosched() // lets these callers ask again, so that the next round trip has more requests
		b.mu.Lock()
		defer b.mu.Unlock()
		switch state.over = true; {
		case !state.late:
			b.work -= t.work
		case state.forgotten == b.forgotten:
			b.late--
		default:
			b.running++ // which end counts down again
		}
		b.end(t, ended, prompt, replied)
	}()
	b.run(ctx, requests)
	returned = true
}

// miss notes that t has missed its deadline. It is called with mu.
func (b *backlog) miss(t trip) {
	if !b.distance.replied.After(t.begun) {
		b.idleCheck.start()
	}
}

// forgetLate lets others begin in place of the round trips that are late. It is called when the server replies on
// other connections.
func (b *backlog) forgetLate() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgotten++
	b.running -= b.late
	b.late = 0
	b.start()
}

// end counts a round trip that ended at a time, before the deadlines or not, with a reply or not, and
// begins others. It is called with mu.
func (b *backlog) end(t trip, at time.Time, prompt, replied bool) {
	b.running--
	b.distance.usual += (at.Sub(t.begun) - b.distance.usual) / 8
	if replied {
		b.distance.replied = at
	}
	if prompt && replied {
		b.distance.add(t, at)
		b.idle++
	} else {
		b.idle = 0
	}
	b.start()
}

// isReply reports whether the outcome of a request, with this error, is the reply of a script.
func isReply(err error) bool {
	_, ok := err.(scriptError)
	return ok || err == nil
}

// start begins round trips for waiting requests while there is room. It is called with mu.
func (b *backlog) start() {
	if b.waiting.length() == 0 {
		return // without a look at the clock: a caller alone pays for it
	}
	now := time.Now()
	distance := b.distance.get(now)
	for {
		bound := distance
		if b.waiting.work >= maxWork { // the next round trip is full
			bound += minRunning * maxWork
		}
		if !b.room(bound) {
			return
		}
		requests, work := b.waiting.next(now, &b.distance, b.work)
		if len(requests) == 0 {
			return
		}
		go b.roundTrip(b.begin(now, work), requests)
	}
}

// length returns the number of waiting requests.
func (b *backlog) length() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting.length()
}
