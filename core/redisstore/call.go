package redisstore

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A call holds the charges and the outcome of one execution of a script.
type call struct {
	charges []driver.Charge
	keys    []string // Redis keys of the charges
	places  []int    // indexes of the charges in the argument of Take or Adjust; nil if the call contains all of them

	repeated bool // the call is made again if it fails

	admitted bool
	readings []driver.Reading // of the charges
	found    []bool           // whether a Renew or an Undo has found its places, or a queue
	number   int64            // of the places that the charges have taken
	time     int64            // of the server
	waited   time.Duration    // by which the MaxDelay of the charges has shrunk
	err      error
}

// calls holds calls that Take and Adjust do not use any more.
var calls = sync.Pool{New: func() any { return new(call) }}

// free ends the use of c.
func (c *call) free() {
	clear(c.keys)
	*c = call{keys: c.keys[:0], readings: c.readings[:0], found: c.found[:0]}
	calls.Put(c)
}

func (c *call) add(charge driver.Charge, key string, place int) {
	c.charges, c.keys, c.places = append(c.charges, charge), append(c.keys, key), append(c.places, place)
}

// delays reports whether c spends from leaky buckets.
func (c *call) delays() bool {
	return slices.ContainsFunc(c.charges, func(c driver.Charge) bool {
		return c.Op == driver.Spend && c.Rule.Kind.Delays
	})
}

// peek returns c with all charges as peeks.
func (c *call) peek() *call {
	peek := *c
	peek.charges = slices.Clone(c.charges)
	for i := range peek.charges {
		peek.charges[i].Op = driver.Peek
	}
	return &peek
}

// undo returns a call that undoes the charges that c has applied, possibly none.
func (c *call) undo() *call {
	undo := new(call)
	if c.err != nil || !c.admitted {
		return undo
	}
	for i, charge := range c.charges {
		charge.MaxDelay = c.maxDelay(i)
		if charge.Op != driver.Spend || charge.Rule.Shadow && !charge.Fits(&c.readings[i]) {
			continue
		}
		charge.Op, charge.Waiter, charge.Receipt = driver.Undo, nil, charge.Rule.Receipt(&c.readings[i], c.time, int64(charge.Cost))
		undo.add(charge, c.keys[i], i)
	}
	return undo
}

// maxDelay returns the MaxDelay of the i-th charge, less the time that its request has waited.
func (c *call) maxDelay(i int) time.Duration {
	d := c.charges[i].MaxDelay
	if d == 0 || c.waited == 0 {
		return d
	}
	return max(1, d-c.waited) // 0 would be no bound
}

// setVerdicts sets the Verdicts, the receipts of charges that were applied, and the Costs with AtMost.
// admitted says whether all calls of the decision are admitted.
func (c *call) setVerdicts(admitted bool) error {
	fit := true
	if c.charges[0].AtMost {
		driver.Reduce(c.charges, func(i int) driver.Reading { return c.readings[i] })
	}
	for i := range c.charges {
		charge, r := &c.charges[i], &c.readings[i]
		switch {
		case charge.Op == driver.Reset, charge.Op == driver.Debit && charge.Rule.Kind.Refills:
			// r is the Reading before the op. The verdict of a Reset says whether anything was in
			// use, and the receipt of a Debit says how much of the bucket was in use.
			charge.Apply(driver.State{Time: c.time + r.Used.Micros, Amount: r.Used.Frac, Debt: c.time}, r, c.time)
			charge.Answer(r, false)
		default:
			asked := charge.MaxDelay
			charge.MaxDelay = c.maxDelay(i)
			charge.Answer(r, admitted)
			charge.MaxDelay = asked
			charge.Verdict.Found = charge.Op == driver.Renew && c.found[i]
			takes := charge.Op == driver.Spend || charge.Op == driver.Debit
			if takes && admitted && charge.Verdict.Allowed {
				charge.Receipt = charge.Rule.Receipt(r, c.time, int64(charge.Cost))
			}
		}
		fit = fit && (charge.Verdict.Allowed || charge.Rule.Shadow)
	}
	if fit != c.admitted {
		return errReply // the readings contradict the outcome
	}
	return nil
}

// outcome reports whether all calls are admitted, and returns the error of a call that failed.
func outcome(calls []*call) (admitted bool, failed error) {
	admitted = true
	for _, c := range calls {
		admitted = admitted && c.admitted
		if c.err != nil && (failed == nil || errors.Is(failed, ErrOverloaded)) { // an outage is the stronger reason
			failed = c.err
		}
	}
	return admitted, failed
}

// each runs f concurrently for every call, and waits for all of them.
func each(calls []*call, f func(*call)) {
	if len(calls) == 1 {
		f(calls[0])
		return
	}
	var wg sync.WaitGroup
	for _, c := range calls {
		wg.Go(func() { f(c) })
	}
	wg.Wait()
}
