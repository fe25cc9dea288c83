package core

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"
)

// Elastic returns r as elastic throttling: while resources are free the limit
// grows, and as they are used up it shrinks back to the limit that r was made with.
//
// spare returns the free part of the resources. 0 or less leaves the limit as it is, and 1 or
// more makes it upTo times as large. Values between them scale the limit in ten steps, rounded
// down to whole events; a value at most 0.01 below a step counts as that step. NaN counts as 0.
// spare is called on every decision, from many goroutines, so it must be quick; package
// core/load has ready-made ones.
//
// The limit follows a rising signal at once. It falls when the signal has fallen by
// more than half a step, so that a signal between two steps does not make it flap.
// A bucket that is half used stays half used whatever its size is. Events that windows and logs
// have counted beyond a limit that has shrunk leave them in time, so no key is locked out for
// longer than Per.
//
// Every process follows its own signal. upTo is 1 to 1000.
func (r Rule) Elastic(spare func() float64, upTo float64) Rule {
	return r.with(func(d *definition) { d.elastic, d.UpTo = &elastic{spare: spare}, upTo })
}

const (
	// elasticSteps is how many steps a limit takes to its largest.
	elasticSteps = 10
	// nearly is the part of a step that may be missing: no machine is ever quite idle.
	nearly = 0.1
)

// An elastic holds the signal of a rule, and the rule at every step.
type elastic struct {
	spare func() float64
	step  atomic.Int32
	rules [elasticSteps]Rule // of the steps from 1 on
}

const maxElastic = 1000

// stretch compiles the rule at every step. If that fails, it sets err.
func (r *definition) stretch() {
	fail := func(reason string) { r.compiled, r.err = nil, r.invalid("elastic", reason) }
	switch {
	case r.elastic.spare == nil:
		fail("has no signal: the function is nil")
		return
	case !(r.UpTo >= 1 && r.UpTo <= maxElastic): // NaN is neither
		fail(fmt.Sprintf("is up to %v, outside 1 to %d", r.UpTo, maxElastic))
		return
	}
	e := &elastic{spare: r.elastic.spare} // r may be a copy
	for i := range e.rules {
		factor := 1 + (r.UpTo-1)*float64(i+1)/elasticSteps
		step := *r
		step.elastic, step.UpTo, step.divided = nil, 0, new(atomic.Pointer[definition])
		step.setLimit(r.limit().times(factor))
		step.Text = step.text()
		var err *RuleError
		if step.compiled, step.err = step.CompileLike(r.compiled); errors.As(step.err, &err) {
			fail(fmt.Sprintf("is too far: %s %s", err.Field, err.Reason))
			return
		}
		e.rules[i] = Rule{&step}
	}
	r.elastic = e
}

// times is l with factor times the events, and a burst that refills in the same time.
func (l Limit) times(factor float64) Limit {
	const rounding = 1e-9 // 1.1 times 10 is 11, whatever a float makes of it
	events := int(min(int64(math.Floor(float64(l.Events)*factor+rounding)), math.MaxInt))
	hi, lo := bits.Mul64(uint64(l.Burst), uint64(events))
	burst, _ := bits.Div64(hi, lo, uint64(l.Events))
	l.Events, l.Burst = events, int(min(burst, math.MaxInt))
	return l
}

// inForce is the rule with the limit of this moment.
func (r Rule) inForce() Rule {
	if r.d.elastic == nil {
		return r
	}
	return r.d.elastic.rule(r)
}

func (e *elastic) rule(base Rule) Rule {
	at := e.spare()
	if math.IsNaN(at) {
		at = 0
	}
	at = min(max(at, 0), 1) * elasticSteps
	step := e.step.Load()
	switch {
	case at+nearly >= float64(step)+1:
		step = int32(at + nearly)
		e.step.Store(step)
	case at < float64(step)-0.5:
		step = int32(at + 0.5)
		e.step.Store(step)
	}
	if step == 0 {
		return base
	}
	return e.rules[step-1]
}
