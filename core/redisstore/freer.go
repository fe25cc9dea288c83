package redisstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A freer frees the places of a decision whose caller does not learn them, because the reply came late or was lost.
// They would stay taken until they lapse.
type freer struct {
	executor *executor
	call     call
	hold     time.Duration // the longest one of the places
}

const (
	// freeTimeout is the time in which the undo of a freer has to be answered, and the shortest pause before the next.
	freeTimeout = time.Second
	// maxFreers bounds the freers at work, and so the memory that they occupy while Redis is down.
	maxFreers = 10_000
)

var freers atomic.Int64

func newFreer(e *executor) *freer { return &freer{executor: e, call: call{repeated: true}} }

// add adds the place that charge takes.
func (f *freer) add(charge *driver.Charge, key string) {
	f.call.charges = append(f.call.charges, driver.Charge{Key: charge.Key, Rule: charge.Rule, Op: driver.Undo, Cost: 1})
	f.call.keys = append(f.call.keys, key)
	f.hold = max(f.hold, time.Duration(charge.Rule.Constants.Period)*time.Microsecond)
}

// free frees the places, which have the given number, in the background. It repeats the undo until that has found
// the places, because Redis may execute an undo before the decision, or until the places lapse.
func (f *freer) free(number int64) {
	if freers.Add(1) > maxFreers {
		freers.Add(-1)
		return
	}
	for i := range f.call.charges {
		f.call.charges[i].Receipt = driver.Receipt{At: number}
	}
	begun := time.Now()
	var try func()
	try = func() {
		f.undo()
		past := time.Since(begun)
		if len(f.call.charges) == 0 || past >= f.hold {
			freers.Add(-1)
			return
		}
		time.AfterFunc(max(freeTimeout, past/16), try)
	}
	go try()
}

// undo undoes the charges, and drops those whose places it has found.
func (f *freer) undo() {
	c := f.call
	f.executor.exec(context.Background(), time.Now().Add(freeTimeout), &c)
	if c.err != nil {
		return
	}
	f.call.charges, f.call.keys = nil, nil
	for i, charge := range c.charges {
		if c.readings[i].Phase == 0 {
			f.call.charges, f.call.keys = append(f.call.charges, charge), append(f.call.keys, c.keys[i])
		}
	}
}
