package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/calendar"
)

// A definition is a Spec with one of its limits, and the result of compiling them at the first use. It does
// not change otherwise.
type definition struct {
	spec *Spec // complete; without Plans in the definition of a plan
	plan Plan  // whose limit it is: of callers without a plan, without a name

	once     sync.Once
	compiled *driver.Compiled             // nil if err is set, and for the limits Unlimited and Blocked
	ban      *driver.Compiled             // the pause of Spec.BlockFor, or nil
	err      error                        // a *RuleError
	elastic  *elastic                     // nil unless the rule is elastic
	partial  bool                         // a limit of an elastic rule that is not its largest
	ofPlans  *Spec                        // spec without Plans
	plans    []atomic.Pointer[definition] // of spec.Plans, each nil before its first use
	unknown  atomic.Pointer[definition]   // of a plan that is none of spec.Plans; nil before its first use

	// The objects that the definition needed last, and will probably need next. A Store may apply a
	// fraction of the rule (see Divide): all decisions with that fraction share one Rule.
	divided atomic.Pointer[definition]
	free    atomic.Pointer[definition] // see Rule.withoutLimit
	present atomic.Pointer[presentPeriods]
	counted atomic.Pointer[counterOf]
}

// unknownPlan is the plan of the rules that apply to callers with a plan that no rule has.
const unknownPlan = "unknown"

// newDefinition returns the definition of s for callers without a plan.
func newDefinition(s Spec) *definition { return &definition{spec: &s, plan: Plan{Limit: s.Limit}} }

// ready compiles d unless that has been done, and returns its error. The definitions of a Limiter are
// ready.
func (d *definition) ready() error {
	d.once.Do(func() {
		if d.compiled == nil {
			d.err = d.compile()
		}
	})
	return d.err
}

// compile sets d.compiled, d.elastic and d.plans, or returns an error.
func (d *definition) compile() error {
	if err := d.spec.check(); err != nil {
		return err
	}
	of := d.spec.definition(&d.plan)
	of.Text = d.spec.text(&d.plan)
	var c *driver.Compiled
	var err error
	if of.Always != 0 {
		err = of.Check()
	} else {
		c, err = of.Compile()
	}
	if err = cmp.Or(err, d.spec.checkElastic()); err != nil {
		return err
	}
	if n := len(d.spec.Plans); n > 0 {
		s := *d.spec
		s.Plans = nil
		d.ofPlans, d.plans = &s, make([]atomic.Pointer[definition], n)
	}
	if c != nil && d.spec.isElastic() {
		d.elastic, err = newElastic(d, c)
	}
	if of, ok := d.spec.banDefinition(); ok && err == nil {
		if d.ban, err = of.Compile(); c == nil {
			d.ban = nil // a plan may have a limit
		}
	}
	if err == nil {
		d.compiled = c
	}
	return err
}

// sameLimit reports whether d and o, two definitions of one name, are equal. Their plans may have different
// names.
func (d *definition) sameLimit(o *definition) bool {
	known := o.spec.definition(&o.plan)
	known.Plan = d.plan.Name
	return d.spec.definition(&d.plan).Equal(known)
}

// ofPlan returns the definition of the i-th plan of d, which must be ready.
func (d *definition) ofPlan(i int) *definition {
	return prepared(&d.plans[i], d.ofPlans, d.spec.Plans[i])
}

// ofUnknown returns d for callers whose plan is unknown.
func (d *definition) ofUnknown() *definition {
	return prepared(&d.unknown, d.ofPlans, Plan{Name: unknownPlan, Limit: d.plan.Limit})
}

// prepared returns the definition at p. If there is none, it stores that of a valid plan of s, ready.
func prepared(p *atomic.Pointer[definition], s *Spec, plan Plan) *definition {
	if known := p.Load(); known != nil {
		return known
	}
	d := &definition{spec: s, plan: plan}
	_ = d.ready()
	if !p.CompareAndSwap(nil, d) {
		return p.Load()
	}
	return d
}

// checkPlans returns an error if a plan of d, which must be ready, is invalid. It compiles a plan only if
// that is necessary, because those of all rules take much memory.
func (d *definition) checkPlans() error {
	names := make(map[string]bool, len(d.spec.Plans))
	for i := range d.spec.Plans {
		p := &d.spec.Plans[i]
		switch {
		case p.Name == "":
			return d.spec.invalid("plan", "has no name")
		case p.Name == unknownPlan:
			return d.spec.invalid("plan", `cannot be called "unknown"`)
		case names[p.Name]:
			return d.spec.invalid("plan", fmt.Sprintf("%q is given twice", p.Name))
		}
		names[p.Name] = true
		err := d.spec.definition(p).Check()
		if err == nil && d.spec.isElastic() && (p.Limit != d.plan.Limit || p.Headroom != 0) {
			err = d.ofPlan(i).ready()
		}
		var of *RuleError
		if errors.As(err, &of) && of.Field != "plan" {
			return d.spec.invalid("plan", fmt.Sprintf("%q: %s %s", p.Name, of.Field, of.Reason))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// part returns one n-th of the limit of d: see [Rule.Divide].
func (d *definition) part(n int) Limit {
	if d.ready() != nil || d.compiled == nil {
		return d.plan.Limit
	}
	c := d.compiled.Divide(n)
	if c == d.compiled {
		return d.plan.Limit
	}
	l := limitOf(&c.Definition)
	if d.compiled.Kind.Refills {
		l.part = &c.Definition
	}
	return l
}

// counterOf is a counter of a rule, and the Observer that it belongs to.
type counterOf struct {
	observer driver.Observer
	count    func(driver.Observation)
}

// counter returns the counter of r for the Observer o. It remembers that of the latest Observer, and
// an application has few.
func (r *definition) counter(o driver.Observer) func(driver.Observation) {
	known := r.counted.Load()
	if known == nil || known.observer != o {
		known = &counterOf{o, o.Counter(r.spec.Name, r.plan.Name)}
		r.counted.Store(known)
	}
	return known.count
}

// otherLength reports whether buckets of d and o, two definitions of one name, may have different lengths.
func (d *definition) otherLength(o *definition) bool {
	if d.compiled == nil || o.compiled == nil || d.compiled.ID != o.compiled.ID {
		return d != o
	}
	return !slices.Equal(d.spec.Plans, o.spec.Plans)
}

// presentPeriods is the compiled rule of a quota without anchors for decisions from and until some time.
type presentPeriods struct {
	compiled    *driver.Compiled
	from, until int64 // Unix microseconds
}

// during returns the compiled rule of r, a quota, for an event of key at the time now.
func (r *definition) during(ctx context.Context, now time.Time, key string) *driver.Compiled {
	us := now.UnixMicro()
	if r.spec.Anchor != nil {
		return r.compiled.During(calendar.Periods(r.plan.Limit.Calendar, now, r.spec.Anchor(ctx, key), r.spec.Location))
	}
	known := r.present.Load()
	if known == nil || us < known.from || us >= known.until {
		p := calendar.Periods(r.plan.Limit.Calendar, now, time.Time{}, r.spec.Location)
		known = &presentPeriods{r.compiled.During(p), p.Start + (p.Boundary-p.Start)/2, p.Boundary + (p.End-p.Boundary)/2}
		r.present.Store(known)
	}
	return known.compiled
}

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
		e.rules[i] = Rule{&definition{spec: &s, plan: p, compiled: compiled, partial: i+1 < elasticSteps}}
	}
	return e, nil
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
