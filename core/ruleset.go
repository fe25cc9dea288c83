package core

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/bounds"
)

// A ruleSet holds the rules of a Limiter, and the same rules with the limits of every plan.
type ruleSet struct {
	rules    []Rule
	plans    map[string]*atomic.Pointer[[]Rule] // by the name of the plan; nil before its first event
	unknown  atomic.Pointer[[]Rule]             // the rules for callers whose plan is not in plans, likewise
	replaced chan struct{}                      // closed when the Limiter has got other rules; nil for a result of with
	warned   unknownPlans

	once sync.Once
	all  []Rule // that of states
}

// newRuleSet checks and compiles rules.
func newRuleSet(rules []Rule) (*ruleSet, error) {
	if len(rules) == 0 {
		return nil, &RuleError{Field: "rules", Reason: "are missing: a limiter needs at least one", Category: ErrInvalidRule}
	}
	if len(rules) > bounds.Charges {
		return nil, &RuleError{
			Rule: rules[0].Name(), Field: "rules", Reason: fmt.Sprintf("are %d in one limiter, more than %d", len(rules), bounds.Charges), Category: ErrInvalidRule,
		}
	}
	s := &ruleSet{rules: slices.Clone(rules), replaced: make(chan struct{})}
	for i, r := range s.rules {
		d := r.def()
		if err := d.ready(); err != nil {
			return nil, err
		}
		for _, other := range s.rules[:i] {
			if other.Name() == r.Name() || isBan(other, r) {
				return nil, d.spec.invalid("name", "is given to two rules of one limiter")
			}
			if r.Kind().Closes && other.Kind().Closes {
				return nil, d.spec.invalid("algorithm", "is that of a second pause in one limiter")
			}
		}
		if err := d.checkPlans(); err != nil {
			return nil, err
		}
	}
	if err := s.checkCharges(); err != nil {
		return nil, err
	}
	s.addPlans()
	return s, nil
}

// checkCharges returns an error if an event of s has more charges than a call may have.
func (s *ruleSet) checkCharges() error {
	n := len(s.rules)
	for _, r := range s.rules {
		if r.d.spec.bans() {
			n++
		}
	}
	if n > bounds.Charges {
		return s.rules[0].d.spec.invalid("rules", fmt.Sprintf("and bans are %d in one limiter, more than %d", n, bounds.Charges))
	}
	return nil
}

// addPlans sets s.plans. The rules for a plan are made at its first event: those of all plans would
// take memory for each rule times each plan.
func (s *ruleSet) addPlans() {
	s.plans = make(map[string]*atomic.Pointer[[]Rule])
	for _, r := range s.rules {
		for i := range r.d.spec.Plans {
			if name := r.d.spec.Plans[i].Name; s.plans[name] == nil {
				s.plans[name] = new(atomic.Pointer[[]Rule])
			}
		}
	}
}

// of returns the rules for a plan. It reports false if the rules have plans, but not this one. A rule
// that does not have the plan has its own limit in it.
func (s *ruleSet) of(plan string) (rules []Rule, known bool) {
	if plan == "" || len(s.plans) == 0 {
		return s.rules, true
	}
	p := s.plans[plan]
	if known = p != nil; !known {
		p, plan = &s.unknown, unknownPlan
	}
	if made := p.Load(); made != nil {
		return *made, known
	}
	return s.makePlan(plan, p), known
}

// makePlan returns the rules for a plan, and stores them in to.
func (s *ruleSet) makePlan(plan string, to *atomic.Pointer[[]Rule]) []Rule {
	rules := slices.Clone(s.rules)
	for i, r := range rules {
		rules[i] = r.forPlan(plan)
	}
	to.Store(&rules)
	return rules
}

// states returns rules that have all states of s: for each rule, those of every length.
func (s *ruleSet) states() []Rule {
	s.once.Do(func() {
		for _, r := range s.rules {
			s.all = addState(s.all, r)
			for i := range r.d.spec.Plans { // most of them have the length of the rule, and are not kept
				p := &definition{spec: r.d.ofPlans, plan: r.d.spec.Plans[i]}
				_ = p.ready() // newRuleSet has checked it
				s.all = addState(s.all, Rule{p})
			}
		}
	})
	return s.all
}

// addState adds r to rules, unless it has no states, or the states of one of them, which has its ban, too.
func addState(rules []Rule, r Rule) []Rule {
	c := r.d.compiled
	if c == nil {
		return rules
	}
	i := slices.IndexFunc(rules, func(o Rule) bool { return o.d.compiled.ID == c.ID })
	switch {
	case i < 0:
		rules = append(rules, r)
	case r.d.ban != nil:
		rules[i] = r
	}
	return rules
}

// definitions returns those of the rules, each followed by those of its plans.
func (s *ruleSet) definitions() (all []driver.Definition) {
	n := len(s.rules)
	for _, r := range s.rules {
		n += len(r.d.spec.Plans)
	}
	all = make([]driver.Definition, 0, n)
	add := func(s *Spec, p *Plan) {
		d := s.definition(p)
		d.Text = s.text(p)
		all = append(all, d)
	}
	for _, r := range s.rules {
		if ban, ok := r.d.spec.banDefinition(); ok {
			all = append(all, ban)
		}
		add(r.d.spec, &r.d.plan)
		for i := range r.d.spec.Plans {
			add(r.d.spec, &r.d.spec.Plans[i])
		}
	}
	return all
}

// find returns the index of the rule that has the name and algorithm of r, or -1.
func (s *ruleSet) find(r Rule) int {
	return slices.IndexFunc(s.rules, func(o Rule) bool {
		return o.Name() == r.Name() && o.Algorithm() == r.Algorithm()
	})
}

// with returns a copy of s in which the rules of o replace the rules of the same name and
// algorithm, together with their plans. It ignores other rules of o.
func (s *ruleSet) with(o *ruleSet) *ruleSet {
	merged := &ruleSet{rules: slices.Clone(s.rules)}
	for _, r := range o.rules {
		if at := s.find(r); at >= 0 {
			merged.rules[at] = r
		}
	}
	merged.addPlans()
	return merged
}

// unknownPlans holds the unknown plans of which a warning was logged. The zero value is empty.
type unknownPlans struct {
	mu    sync.RWMutex
	names map[string]bool
}

// maxUnknownPlans bounds the warnings of a Limiter, because clients may cause them.
const maxUnknownPlans = 16

// warn logs, once for each name, that no rule of s has the plan. The log is that of o, which may be nil.
func (u *unknownPlans) warn(plan string, s *ruleSet, o driver.Observer) {
	plan = plan[:min(len(plan), 64)] // names of plans are no longer
	u.mu.RLock()
	known := u.names[plan] || len(u.names) == maxUnknownPlans
	u.mu.RUnlock()
	if known || !u.add(plan) {
		return
	}
	names := make([]string, len(s.rules))
	for i, r := range s.rules {
		names[i] = r.Name()
	}
	log := slog.Default()
	if o != nil {
		log = o.Logger()
	}
	log.Warn("weir: unknown plan; its callers have the limits without a plan", "plan", plan, "rules", names)
}

// add adds plan, and reports whether it was added.
func (u *unknownPlans) add(plan string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.names[plan] || len(u.names) == maxUnknownPlans {
		return false
	}
	if u.names == nil {
		u.names = make(map[string]bool)
	}
	u.names[strings.Clone(plan)] = true // plan may be a part of a larger string
	return true
}
