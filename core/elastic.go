package core

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/weir-go/weir/core/driver"
)

const (
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

// newElastic returns the elastic of d, whose limit compiles to c.
func newElastic(d *definition, c *driver.Compiled) (*elastic, error) {
	s, p := *d.spec, d.plan
	s.Spare, s.UpTo = nil, 0
	e := &elastic{spare: d.spec.Spare, shrinks: c.Kind.Holds}
	for i := range e.rules {
		p.Limit = d.plan.Limit.times(1 + (d.spec.UpTo-1)*float64(i+1)/elasticSteps)
		of := s.definition(&p)
		of.Text, of.Like = s.text(&p), c
		compiled, err := of.Compile()
		var invalid *RuleError
		if errors.As(err, &invalid) {
			return nil, s.invalid("elastic", fmt.Sprintf("is too far: %s %s", invalid.Field, invalid.Reason))
		}
		e.rules[i] = Rule{&definition{spec: &s, plan: p, compiled: compiled}}
	}
	return e, nil
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

// rule returns the rule with the limit that is in force now: at the present step, or base at none.
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
