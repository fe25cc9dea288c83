package pipe

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
)

// A Job is a request on its way to Redis, with its caller, who may leave before the reply: a round trip may then still
// use the Job, so its caller must not. Concurrent jobs share round trips and scripts. Use [NewJob].
type Job struct {
	wire.Request
	Effect Effect // nil if nothing has to be done without the caller

	// The caller sets these. Only its goroutine uses the last three.
	ctx   context.Context
	until time.Time // the deadline of the decision
	ended error     // set when a wait finds that ctx or the deadline has ended
	timer *time.Timer
	timed bool // timer is that of until, and not of an earlier job

	// The backlog sets these.
	leaves time.Time     // when the caller leaves
	Since  time.Time     // when the job began to wait; zero if it did not wait
	left   atomic.Bool   // the caller does not wait any more, or the outcome was there first
	done   chan struct{} // receives a value after the outcome is set, unless the caller runs the script

	roundTrip atomic.Uint64 // the number of the latest round trip; 0 if the job was alone in it
}

// An Effect hears of a job whose effect needs its caller, such as places that the caller has to free. Both methods are
// called by any goroutine.
type Effect interface {
	Left()           // the caller has left before the outcome
	Ended(left bool) // the outcome is set, after the caller has left or not
}

var jobs = sync.Pool{New: func() any { return &Job{done: make(chan struct{}, 1)} }}

// NewJob returns an empty Job.
func NewJob() *Job { return jobs.Get().(*Job) }

// Free ends the use of j. Its caller must have received the reply.
func (j *Job) Free() {
	j.Request.Reset()
	if j.timed {
		j.timer.Stop()
	}
	j.Effect, j.ctx, j.ended, j.timed = nil, nil, nil, false
	j.Since = time.Time{}
	j.left.Store(false)
	j.roundTrip.Store(0)
	jobs.Put(j)
}

// again prepares j, which did not run, to be sent again.
func (j *Job) again() {
	j.Again()
	j.left.Store(false)
	j.roundTrip.Store(0)
}

// MayHaveRun reports whether Redis may have executed the script of j, which has failed.
func (j *Job) MayHaveRun() bool {
	var reply redis.Error
	return j.Number() != 0 && !errors.As(j.Err, &reply) && !didNotRun(j.Err) && !redirected(j.Err) &&
		!errors.Is(j.Err, context.Canceled) // while it waited for a connection: go-redis looks at the context only then
}

// over reports whether the caller needs no outcome, so that j need not be sent.
func (j *Job) over(now time.Time) bool {
	return !j.Undoes && (j.left.Load() || !now.Before(j.leaves) || j.ctx.Err() != nil)
}

// leave notes that the caller leaves. It returns false if the outcome was there first, or will be at once.
func (j *Job) leave() bool {
	if j.left.Swap(true) {
		return false
	}
	if j.Effect != nil {
		j.Effect.Left()
	}
	return true
}

// finish notes that the outcome is set.
func (j *Job) finish() {
	if left := j.left.Swap(true); j.Effect != nil {
		j.Effect.Ended(left)
	}
}

// outcome returns the error of j, which is over. If j has failed and the deadline has passed, the
// deadline is the reason.
func (j *Job) outcome() error {
	if j.Err != nil && j.Err != driver.ErrOverloaded && !time.Now().Before(j.until) {
		j.ended = context.DeadlineExceeded
		return j.ended
	}
	return j.Err
}

// wait returns a value from c, or the error of j if its caller leaves first.
func wait[T any](j *Job, c <-chan T) (T, error) {
	var none T
	if j.ended != nil {
		return none, j.ended
	}
	switch {
	case j.timer == nil:
		j.timer = time.NewTimer(time.Until(j.until))
	case !j.timed:
		j.timer.Reset(time.Until(j.until))
	}
	j.timed = true
	select {
	case v := <-c:
		return v, nil
	case <-j.ctx.Done():
		j.ended = j.ctx.Err()
	case <-j.timer.C:
		j.ended = context.DeadlineExceeded
	}
	return none, j.ended
}

// sleep waits for a random time between t/2 and t, or until the caller leaves.
func (j *Job) sleep(t time.Duration) error {
	timer := time.NewTimer(t/2 + rand.N(t/2))
	defer timer.Stop()
	_, err := wait(j, timer.C)
	return err
}
