package redisstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A freer frees the places of a decision whose caller does not learn them, because the reply comes late or is lost.
// They would stay taken until they lapse.
type freer struct {
	executor *executor
	hold     time.Duration // the longest one of the places
	atMost   bool          // it is not known how many places by cost were taken

	mu      sync.Mutex
	number  int64       // of the places; 0 until the decision is sent
	call    call        // the undos of the places that were not found
	begun   time.Time   // when the undos began
	timer   *time.Timer // for the next undo; nil if none is planned
	calling bool        // an undo is under way
	follows bool        // another one has to follow at once
	over    bool        // no place is taken, or all were found
}

const (
	// replyDelay is the time that a reply may take after its caller has left. Then it is probably lost.
	replyDelay = 250 * time.Millisecond
	// freePause is the shortest pause after an undo.
	freePause = 500 * time.Millisecond
	// lastCall is the time after which an undo that finds no place is the last one: a connection without a reply is
	// closed before, and Redis has executed all that it has received.
	lastCall = 10 * time.Second
	// maxFreers bounds the freers at work, and so the memory that they occupy while Redis is down.
	maxFreers = 10_000
)

func newFreer(e *executor) *freer { return &freer{executor: e, call: call{repeated: true}} }

// add adds the place that charge takes.
func (f *freer) add(charge *driver.Charge, key string) {
	f.call.charges = append(f.call.charges, driver.Charge{Key: charge.Key, Rule: charge.Rule, Op: driver.Undo, Cost: charge.Cost})
	f.call.keys = append(f.call.keys, key)
	f.atMost = charge.AtMost
	f.hold = max(f.hold, time.Duration(charge.Rule.Constants.Period)*time.Microsecond)
}

// again returns a freer for the same decision, which was not executed and is sent again.
func (f *freer) again() *freer {
	f.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	next := newFreer(f.executor)
	next.hold, next.atMost, next.call.charges, next.call.keys = f.hold, f.atMost, slices.Clone(f.call.charges), slices.Clone(f.call.keys)
	return next
}

// sent notes that the decision is sent, with the number of its places.
func (f *freer) sent(number int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.number = number
}

// start frees the places in the background, from after on. It repeats the undo until that has found the places,
// because Redis may execute an undo before the decision, until Redis replies after lastCall that they are not there, or
// until they lapse.
func (f *freer) start(after time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.over:
	case f.calling:
		f.follows = true // Redis may have executed the undo before the decision
	case f.timer != nil:
		f.timer.Reset(after)
	case f.executor.freers.Add(1) > maxFreers:
		f.executor.freers.Add(-1)
	default:
		f.begun, f.timer = time.Now(), time.AfterFunc(after, f.try)
	}
}

// stop ends the undos, because no place is taken.
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
		f.executor.freers.Add(-1)
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
	case f.over, f.number == 0:
		f.rest()
		f.mu.Unlock()
		return
	}
	f.calling = true
	c := f.call
	for i := range c.charges {
		u := &c.charges[i]
		cost := int64(u.Cost)
		if f.atMost {
			cost = 0 // in_flight_by_cost_adjust.lua looks for the number
		}
		u.Receipt = u.Rule.Receipt(new(driver.Reading), f.number, cost)
	}
	f.mu.Unlock()
	f.executor.exec(context.Background(), time.Now().Add(f.executor.timeout), &c)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calling = false
	f.drop(&c)
	past := time.Since(f.begun)
	f.over = f.over || len(f.call.charges) == 0 || past >= f.hold || past >= lastCall && c.err == nil
	switch {
	case f.over:
		f.rest()
	case f.follows:
		f.follows = false
		f.timer.Reset(0)
	default:
		f.timer.Reset(max(freePause, past/8))
	}
}

// drop drops the undos that have found their places, with the outcome c.
func (f *freer) drop(c *call) {
	if c.err != nil || len(c.readings) == 0 {
		return
	}
	f.call.charges, f.call.keys = nil, nil
	for i, charge := range c.charges {
		if c.readings[i].Phase == 0 {
			f.call.charges, f.call.keys = append(f.call.charges, charge), append(f.call.keys, c.keys[i])
		}
	}
}
