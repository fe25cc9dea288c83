package core

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/weir-go/weir/core/driver"
)

// Elastic returns a copy of r with elastic throttling: the limit grows while resources are free,
// and shrinks back to the limit of r as they are used up. Each process follows its own signal.
//
// spare, such as a signal of package core/load, must return the free part of the resources. At 0 or
// less, the limit is that of r. At 1 or more, it is upTo times as large (1 to 1000). Values between
// 0 and 1 scale the limit in ten steps of 0.1, rounded down to whole events. NaN counts as 0. Every
// decision calls spare, from many goroutines, so it must be fast.
//
// The limit rises to a step when the signal comes within 0.01 of it: to the fifth step at 0.49. It
// falls when the signal is more than half a step below: from the fifth step at less than 0.45. Small
// changes of the signal therefore do not move the limit up and down. A bucket that is half used stays
// half used at every size. After the limit of a window or log has shrunk, surplus events expire as
// usual, so no key is denied for longer than Per.
//
// The limit of an [InFlight] only shrinks, because its places are few: upTo is a factor above 0, up to 1.
// At 1 or more of spare, the limit is that of r, at 0 or less upTo times as large, and at least 1. Running
// events keep their places.
func (r Rule) Elastic(spare func() float64, upTo float64) Rule {
	return r.modify(func(d *definition) { d.elastic, d.UpTo = &elastic{spare: spare}, upTo })
}

const (
	maxElastic    = 1000
	elasticSteps  = 10  // from the limit of the rule to upTo times that limit
	stepTolerance = 0.1 // in steps: a signal rarely reaches 1, because no machine is ever fully idle
)

// An elastic holds the signal of a rule, and the rule at every step.
type elastic struct {
	spare   func() float64
	shrinks bool // the steps are below the limit of the rule, not above it
	step    atomic.Int32
	rules   [elasticSteps]Rule // the rule at step 1 has index 0
}

// compileSteps compiles the rule at every step. If that fails, it sets err.
func (r *definition) compileSteps() {
	fail := func(reason string) { r.compiled, r.err = nil, r.invalid("elastic", reason) }
	switch {
	case r.elastic.spare == nil:
		fail("has no signal: the function is nil")
		return
	case r.Algorithm == driver.InFlight && !(r.UpTo > 0 && r.UpTo <= 1): // NaN is neither
		fail(fmt.Sprintf("is up to %v, not above 0 and up to 1", r.UpTo))
		return
	case r.Algorithm != driver.InFlight && !(r.UpTo >= 1 && r.UpTo <= maxElastic):
		fail(fmt.Sprintf("is up to %v, outside 1 to %d", r.UpTo, maxElastic))
		return
	}
	e := &elastic{spare: r.elastic.spare, shrinks: r.Algorithm == driver.InFlight} // another rule may share r.elastic
	for i := range e.rules {
		factor := 1 + (r.UpTo-1)*float64(i+1)/elasticSteps
		step := *r
		step.elastic, step.UpTo, step.latest = nil, 0, new(latest)
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

// times returns l with factor times as many events, and a burst that refills in the same time.
func (l Limit) times(factor float64) Limit {
	const rounding = 1e-9 // 1.1 times 10 is 11, in spite of floating-point errors
	events := int(min(int64(math.Floor(float64(l.Events)*factor+rounding)), math.MaxInt))
	hi, lo := bits.Mul64(uint64(l.Burst), uint64(events))
	burst, _ := bits.Div64(hi, lo, uint64(l.Events))
	l.Events, l.Burst = max(events, 1), int(min(burst, math.MaxInt))
	return l
}

// inForce returns the rule with the limit that is in force now. The limit of r must count.
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
	if at = min(max(at, 0), 1); e.shrinks {
		at = 1 - at
	}
	at *= elasticSteps
	switch step := float64(e.step.Load()); {
	case at+stepTolerance >= step+1:
		e.step.Store(int32(at + stepTolerance))
	case at < step-0.5:
		e.step.Store(int32(at + 0.5))
	}
	if step := e.step.Load(); step > 0 {
		return e.rules[step-1]
	}
	return base
}
