package pipe

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
)

// A backlog sends jobs to one server. While little is under way, a job is sent at once, alone.
// The others wait, and share round trips. Redis decides each as it would alone.
//
// The bound is the work under way, which is the time that the server needs for it: at most the
// distance of the server, or 1 ms more for full round trips. The server then always has work. With
// more, jobs would wait there instead of here, where they share scripts.
//
// A caller leaves at its deadline. Its job is then not sent unless it is an undo, or its outcome is not read,
// and a place that it has taken is freed.
type backlog struct {
	// run executes jobs in one round trip and sets their outcomes. It may take longer than the
	// deadlines of the jobs.
	run func(ctx context.Context, jobs []*Job)
	// runOwn executes a job on the goroutine of its caller. It returns before the deadline of ctx,
	// and closes the connection if the server does not reply in time. It is nil if that is impossible.
	runOwn func(ctx context.Context, jobs []*Job)
	limit  int // of running
	// idleCheck starts when a deadline has passed and the server has not replied since the round trip began.
	idleCheck *idleCheck

	mu        sync.Mutex
	waiting   lanes
	running   int           // round trips under way, each with a connection, without those forgotten
	late      int           // those of them whose jobs have missed their deadlines
	forgotten int           // how often late round trips were forgotten
	work      time.Duration // of the other ones
	idle      int           // connections that prompt round trips have left idle
	distance  distance
	tick      *tick // of inline round trips
}

const (
	// minRunning is the number of round trips that may always be under way. With fewer, a server that
	// is near would be idle between them.
	minRunning = 4
	// Jobs are sent at once up to a work of 1/alone of the distance. Then they wait until a round
	// trip ends, and share the next one, which takes less time of both sides.
	alone = 8
	// outage is the time without a prompt round trip after which jobs fail at once if all round trips
	// are late. After a short pause of this process or of the server, they wait.
	outage = time.Second
	// maxWork bounds the time for which a round trip occupies the server, unless it has one job.
	maxWork = 250 * time.Microsecond
	// tripWork is the work of a round trip without that of its jobs.
	tripWork = 15 * time.Microsecond
)

// Send executes j, and returns when its outcome is set, or with an error when its caller leaves.
func (b *backlog) Send(j *Job) error {
	if j.ended = j.ctx.Err(); j.ended != nil {
		return j.ended
	}
	ends, earlier := j.ctx.Deadline()
	if j.leaves, earlier = j.until, earlier && ends.Before(j.until); earlier {
		j.leaves = ends
	}
	now := time.Now()
	b.mu.Lock()
	switch distance := b.distance.get(now); {
	case b.late >= b.limit && now.Sub(b.distance.replied) >= outage:
		b.mu.Unlock()
		return fmt.Errorf("%d round trips have no reply", b.limit)
	case b.running > b.late && b.distance.isHopeless(j, now, 0): // otherwise j measures the distance again
		b.mu.Unlock()
		return driver.ErrOverloaded
	case !b.room(distance / alone):
		j.Since = now
		if !b.waiting.add(j) {
			b.mu.Unlock()
			return driver.ErrOverloaded
		}
	case b.runOwn != nil && b.idle > 0 && !earlier && j.Effect == nil: // a missed deadline would lose the reply
		t := b.begin(now, j.Work)
		b.tick = b.tick.next(now, j.leaves)
		ctx := &inlineContext{j.ctx, j.leaves, b.tick}
		b.mu.Unlock()
		b.inline(ctx, t, j)
		return j.outcome()
	default:
		go b.roundTrip(b.begin(now, j.Work), []*Job{j})
	}
	b.mu.Unlock()
	if _, err := wait(j, j.done); err != nil {
		if j.leave() {
			return shared(err, j.roundTrip.Load())
		}
		<-j.done
	}
	return shared(j.outcome(), j.roundTrip.Load())
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

// inline runs j on the goroutine of its caller, which saves two switches between goroutines. The
// caller leaves with the reply or at the deadline of the decision, so its context must not have an
// earlier deadline. A late reply costs the connection, so there must be an idle connection, on which
// the last reply was prompt: to open one takes several round trips.
func (b *backlog) inline(ctx *inlineContext, t trip, j *Job) {
	returned := false
	defer func() { // also if a hook ends the goroutine
		ended := time.Now()
		prompt := ended.Before(ctx.deadline)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.work -= t.work
		b.end(t, ended, prompt, returned && isReply(j.Err))
		if !prompt {
			b.miss(t)
		}
	}()
	b.runOwn(ctx, []*Job{j})
	returned = true
}

// roundTrip runs jobs. After the reply, or if the last deadline passes before it, other round
// trips may begin.
func (b *backlog) roundTrip(t trip, jobs []*Job) {
	last := slices.MaxFunc(jobs, func(a, b *Job) int { return a.leaves.Compare(b.leaves) })
	ctx, cancel := context.WithCancel(context.WithoutCancel(last.ctx))
	var state struct { // guarded by mu
		late, over bool
		forgotten  int // when it was late
	}
	watchdog := time.AfterFunc(time.Until(last.leaves), func() {
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
		replied := returned && isReply(last.Err)
		for _, j := range jobs {
			j.finish()
			j.done <- struct{}{} // has room for one
		}
		runtime.Gosched() // lets these callers ask again, so that the next round trip has more jobs
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
	b.run(ctx, jobs)
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
	b.distance.count(t, at)
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

// isReply reports whether the outcome of a job, with this error, is the reply of a script.
func isReply(err error) bool {
	_, ok := err.(wire.ScriptError)
	return ok || err == nil
}

// start begins round trips for waiting jobs while there is room. It is called with mu.
func (b *backlog) start() {
	if b.waiting.work == 0 {
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
		jobs, work := b.waiting.next(now, &b.distance, b.work)
		if len(jobs) == 0 {
			return
		}
		go b.roundTrip(b.begin(now, work), jobs)
	}
}

// Length returns the number of waiting jobs.
func (b *backlog) Length() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting.length()
}
