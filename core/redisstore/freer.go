package redisstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/waiters"
	"github.com/weir-go/weir/core/redisstore/internal/pipe"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
)

// A freer frees the places of a decision whose caller does not learn them, because the reply comes late or is lost, and
// removes the queue of a caller who waits, if no other caller of this process waits in it. The places would stay taken
// until they lapse, and the queue in front of the callers of other processes until it expires. A freer is the
// [pipe.Effect] of its job.
type freer struct {
	store  *Store
	job    *pipe.Job     // its number, and its outcome after that is set; the rest is that of a round trip
	hold   time.Duration // the longest one of the places
	atMost bool          // it is not known how many places by cost were taken
	queue  int64         // of a caller who waits; 0 of others

	mu      sync.Mutex
	undos   []undo      // of the places and queues that were not found
	begun   time.Time   // when the undos began
	timer   *time.Timer // for the next undo; nil if none is planned
	calling bool        // an undo is under way
	follows bool        // another one has to follow at once
	over    bool        // no place is taken, or all were found
}

// An undo removes a place or, with a [driver.Waiter], a queue.
type undo struct {
	charge driver.Charge
	key    string // in Redis
}

const (
	// replyDelay is the time that a reply may take after its caller has left. Then it is probably lost.
	replyDelay = 250 * time.Millisecond
	// freeInterval is the shortest time after an undo.
	freeInterval = 500 * time.Millisecond
	// leaveDelay is the time that a caller may take to leave its queue after its decision has failed.
	leaveDelay = 5 * time.Millisecond
	// lastCall is the time after which an undo that finds no place is the last one: a connection without a reply is
	// closed before, and Redis has executed all that it has received.
	lastCall = 10 * time.Second
	// maxFreers bounds the freers at work, and so the memory that they occupy while Redis is down.
	maxFreers = 10_000
)

// newFreer returns the freer of the places that j takes, and of the queues of its callers. Its charges may change when
// the caller has left, so the freer has copies.
func newFreer(s *Store, j *pipe.Job) *freer {
	f := &freer{store: s, job: j}
	for i := range j.Charges {
		c := &j.Charges[i]
		if c.Op != driver.Spend || !c.Rule.Kind.Holds {
			continue
		}
		u := undo{driver.Charge{Key: c.Key, Rule: c.Rule, Op: driver.Undo, Cost: c.Cost}, j.Keys[i]}
		f.undos = append(f.undos, u)
		if wire.Waits(c) {
			f.queue = c.Waiter.Queue
			u.charge.Waiter = &driver.Waiter{Queue: f.queue}
			f.undos = append(f.undos, u)
		}
		f.atMost = c.AtMost
		f.hold = max(f.hold, time.Duration(c.Rule.Constants.Period)*time.Microsecond)
	}
	return f
}

// Left begins the undos if the reply does not come soon.
func (f *freer) Left() { f.start(replyDelay) }

// Ended begins the undos at once if the caller does not learn the places that the job has taken, or may have taken, and
// ends them if it has taken none.
func (f *freer) Ended(left bool) {
	switch j := f.job; {
	case j.Err == nil && left && !j.Denied():
		f.start(0)
	case j.Err != nil && j.MayHaveRun():
		f.start(0)
	case !left: // the caller learns it, or sends the job again
	case j.Err == nil:
		f.denied()
	default:
		f.stop()
	}
}

// start frees the places in the background, from after on. It repeats the undo until that has found the places,
// because Redis may execute an undo before the decision, until Redis replies after lastCall that they are not there, or
// until they lapse.
func (f *freer) start(after time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.queue != 0 {
		after = max(after, leaveDelay)
	}
	switch {
	case f.over:
	case f.calling:
		f.follows = true // Redis may have executed the undo before the decision
	case f.timer != nil:
		f.timer.Reset(after)
	case f.store.freers.Add(1) > maxFreers:
		f.store.freers.Add(-1)
	default:
		f.begun, f.timer = time.Now(), time.AfterFunc(after, f.try)
	}
}

// denied notes that no place is taken. The caller does not learn it, and has left its queue in Redis.
func (f *freer) denied() {
	if f.queue == 0 {
		f.stop()
		return
	}
	f.mu.Lock()
	f.undos = slices.DeleteFunc(f.undos, func(u undo) bool { return !isQueue(&u.charge) })
	f.mu.Unlock()
	f.start(0)
}

// stop ends the undos, because no place is taken, and no queue is left.
func (f *freer) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	f.rest()
}

// rest ends the plan for the next undo. It is called with mu.
func (f *freer) rest() {
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
		f.store.freers.Add(-1)
	}
}

// try sends an undo, and plans the next one. A decision that was not sent needs none.
func (f *freer) try() {
	f.mu.Lock()
	switch {
	case f.calling: // the timer was reset when it had just run
		f.follows = true
		f.mu.Unlock()
		return
	case f.over, f.job.Number() == 0:
		f.rest()
		f.mu.Unlock()
		return
	}
	open := f.queue != 0 && waiters.Open(f.queue) // then it is that of a caller who asks again, or leaves it
	f.calling = true
	j := pipe.NewJob()
	j.Repeats = true
	for _, u := range f.undos {
		switch charge := &u.charge; {
		case !isQueue(charge):
			cost := int64(charge.Cost)
			if f.atMost {
				cost = 0 // in_flight_adjust.lua looks for the number
			}
			charge.Receipt = charge.Rule.Receipt(new(driver.Reading), f.job.Number(), cost)
		case open:
			continue
		}
		j.Charges, j.Keys = append(j.Charges, u.charge), append(j.Keys, u.key)
	}
	f.mu.Unlock()
	var err error
	if len(j.Charges) > 0 {
		err = f.store.do(context.Background(), time.Now().Add(f.store.timeout), j)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calling = false
	past := time.Since(f.begun)
	f.undos = slices.DeleteFunc(f.undos, func(u undo) bool {
		return err == nil && finds(j, &u) || isQueue(&u.charge) && past >= wire.QueueHold
	})
	f.over = f.over || len(f.undos) == 0 || past >= f.hold || past >= lastCall && err == nil
	switch {
	case f.over:
		f.rest()
	case f.follows:
		f.follows = false
		f.timer.Reset(0)
	default:
		f.timer.Reset(max(freeInterval, past/8))
	}
}

// finds reports whether j has found the place or the queue of u.
func finds(j *pipe.Job, u *undo) bool {
	for i := range j.Charges {
		if j.Keys[i] == u.key && isQueue(&j.Charges[i]) == isQueue(&u.charge) && j.Found[i] {
			return true
		}
	}
	return false
}

// isQueue reports whether the undo of a charge removes a queue, and not a place.
func isQueue(charge *driver.Charge) bool { return charge.Waiter != nil }
