package storetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/storetest/internal/oracle"
)

// A modelLimiter models a core.Limiter and its variants.
type modelLimiter struct {
	*core.Limiter
	rules    []*modelRule
	variants []*modelView
}

// with returns the rules of l under a variant.
func (l *modelLimiter) with(variant []*modelRule) []*modelRule {
	rules := slices.Clone(l.rules)
	for i, r := range rules {
		if at := slices.IndexFunc(variant, r.replaces); at >= 0 {
			rules[i] = variant[at]
		}
	}
	return rules
}

// A modelView models a view of a core.Limiter.
type modelView struct {
	of      *modelLimiter
	view    *core.Limiter
	variant []*modelRule
	plan    string
	picks   map[string]*modelView // the result of the function of Choose for each key
}

// choose returns the rules of v for an event of key, and its plan. plan is that of the event.
func (v *modelView) choose(key, plan string) (rules []*modelRule, _ string) {
	plan = cmp.Or(plan, v.plan)
	if picked := v.picks[key]; picked != nil {
		return v.of.with(picked.variant), cmp.Or(picked.plan, plan)
	}
	return v.of.with(v.variant), plan
}

// rules returns the rules of v with the limits of an event.
func (v *modelView) rules(key, plan string) (all []limited) {
	rules, plan := v.choose(key, plan)
	has := func(r *modelRule) bool { return r.limits[plan] != core.Limit{} }
	known := slices.ContainsFunc(rules, has)
	for _, r := range rules {
		switch {
		case has(r):
			all = append(all, r.under(plan, r.limits[plan]))
		case !known && len(r.limits) > 1:
			all = append(all, r.under("unknown", r.limits[""]))
		default:
			all = append(all, r.under("", r.limits[""]))
		}
	}
	return all
}

// A modelAsk models a core.Ask.
type modelAsk struct {
	view      *modelView
	key, plan string
	cost      int // at least 1
	peek      bool
	atMost    bool // the only ask, without a plan: Limiter.ReserveAtMost
}

func (a *modelAsk) ask() core.Ask {
	return core.Ask{Limiter: a.view.view, Key: a.key, Plan: a.plan, Cost: a.cost, Peek: a.peek}
}

func (a modelAsk) String() string {
	return fmt.Sprintf("%q plan %q cost %d peek %v at most %v: %v", a.key, a.plan, a.cost, a.peek, a.atMost, a.view.rules(a.key, a.plan))
}

// A modelDecision models a core.Decision, and a core.Reservation of it.
type modelDecision struct {
	rules   []limited    // of all asks
	states  []core.State // for each of rules, without its Rule and Period
	periods []time.Duration
	rests   []int         // the events that have rolled over
	charges []modelCharge // those of equal rules and keys are merged
	invalid bool          // the error is an ErrInvalidAsk

	asks    []modelAsk
	costs   []int // the settled cost of each ask
	allowed bool
}

// A modelCharge is a charge of a decision to a rule.
type modelCharge struct {
	oracle.Charge
	rule  limited
	asks  []int           // the asks that it belongs to
	parts []oracle.Charge // the charges that can be undone, the newest last
}

// newModelDecision returns the rules and charges of asks, whose event is reserved or not. blocked reports
// whether a rule blocks them.
func newModelDecision(reserved bool, asks ...modelAsk) (d *modelDecision, blocked bool) {
	d = &modelDecision{asks: asks}
	for i, a := range asks {
		for _, r := range a.view.rules(a.key, a.plan) {
			d.rules = append(d.rules, r)
			d.states, d.periods, d.rests = append(d.states, core.State{Ask: i}), append(d.periods, 0), append(d.rests, 0)
			for j, o := range d.rules[:len(d.rules)-1] {
				if o.name == r.name && asks[d.states[j].Ask].key == a.key && !o.equal(r) {
					d.invalid = true
				}
			}
			if !r.counts() {
				blocked = blocked || r.limit == core.Blocked && !r.shadow
				continue
			}
			cost := int64(a.cost)
			if r.takesOne() {
				cost, d.invalid = 1, d.invalid || !a.peek && a.atMost
			}
			d.invalid = d.invalid || r.isInFlight() && !a.peek && !reserved
			d.add(i, r, cost)
			if pause, ok := r.ban(); ok {
				d.add(i, pause, cost)
			}
		}
	}
	return d, blocked
}

// add adds a charge of r to d, for the ask with an index.
func (d *modelDecision) add(ask int, r limited, cost int64) {
	a := d.asks[ask]
	c := d.charge(a.key, r)
	if c == nil {
		d.charges = append(d.charges, modelCharge{Charge: r.charge(a.key, oracle.Peek), rule: r})
		c = &d.charges[len(d.charges)-1]
		c.AtMost = a.atMost
	}
	switch {
	case !a.peek && c.Op == oracle.Peek:
		c.Op, c.Cost = oracle.Spend, cost
	case !a.peek && !r.takesOne():
		c.Cost += cost
	case c.Op == oracle.Peek:
		c.Cost = max(c.Cost, cost)
	}
	c.asks = append(c.asks, ask)
}

// beginBans begins the bans of the rules that deny d.
func (d *modelDecision) beginBans(o *oracle.Oracle, now int64) {
	for i, r := range d.rules {
		pause, ok := r.ban()
		if !ok {
			continue
		}
		key := d.asks[d.states[i].Ask].key
		c, block := d.charge(key, r), d.charge(key, pause)
		if c.Op != oracle.Spend || c.Verdict.Allowed || c.Verdict.RetryAfter == oracle.Never || r.headroom > 0 || !block.Verdict.Allowed {
			continue
		}
		debit := pause.charge(key, oracle.Debit)
		debit.Pause, debit.Ban = r.blockFor, true
		o.Adjust(now, []oracle.Charge{debit})
		peek := pause.charge(key, oracle.Peek)
		peek.Cost = 1
		block.Verdict, _ = o.Look(now, &peek)
	}
}

// charge returns the charge of r for key, or nil.
func (d *modelDecision) charge(key string, r limited) *modelCharge {
	for i := range d.charges {
		if c := &d.charges[i]; c.Key == key && c.rule.equal(r) {
			return c
		}
	}
	return nil
}

// decide returns the decision about asks at now, and charges it to o. reserved tells whether the call is
// one that returns a Reservation.
func decide(o *oracle.Oracle, now int64, reserved bool, asks ...modelAsk) *modelDecision {
	d, blocked := newModelDecision(reserved, asks...)
	if d.invalid {
		return d
	}
	if !blocked && len(d.charges) > 0 {
		charges := make([]oracle.Charge, len(d.charges))
		for i := range charges {
			charges[i] = d.charges[i].Charge
			charges[i].Receipt = new(oracle.Receipt)
		}
		o.Take(now, charges)
		if asks[0].atMost {
			asks[0].cost = int(charges[0].Cost)
		}
		for i, c := range charges {
			if d.charges[i].Cost, d.charges[i].Verdict = c.Cost, c.Verdict; c.Op == oracle.Spend && c.Verdict.Allowed {
				if d.charges[i].rule.isInFlight() && c.Receipt.At != 0 {
					numberPlace(o, now, &c)
				}
				d.charges[i].parts = []oracle.Charge{c}
			}
		}
		d.beginBans(o, now)
	}
	d.allowed = true
	for i, r := range d.rules {
		s := &d.states[i]
		switch {
		case r.limit == core.Unlimited:
			s.Allowed, s.Remaining = true, math.MaxInt
		case r.limit == core.Blocked:
			s.RetryAfter, s.Window = core.Never, core.Never
		case blocked:
			s.Allowed, s.Unknown = true, true
		default:
			c := &d.charge(asks[s.Ask].key, r).Charge
			v := catalog(nil).verdict(c)
			d.rests[i] = int(c.Verdict.Rest)
			d.periods[i] = time.Duration(v.Period) * time.Second
			s.Allowed, s.Soft, s.Remaining = v.Allowed, v.Soft, v.Remaining
			s.RetryAfter, s.ResetAfter, s.Window, s.Delay = v.RetryAfter, v.ResetAfter, v.Window, v.Delay
			s.Estimate = r.isInFlight() && !v.Allowed && v.RetryAfter != core.Never
			if pause, ok := r.ban(); ok {
				d.close(s, d.charge(asks[s.Ask].key, pause))
			}
		}
		d.allowed = d.allowed && (r.shadow || s.Allowed && !s.Unknown)
	}
	if !d.allowed {
		d.charges = nil
	}
	for _, a := range asks {
		if a.peek {
			a.cost = 0
		}
		d.costs = append(d.costs, a.cost)
	}
	return d
}

// close makes s that of a key which ban closes, if it does.
func (d *modelDecision) close(s *core.State, block *modelCharge) {
	if block.Verdict.Allowed {
		return
	}
	s.Ban = time.Duration(block.Verdict.RetryAfter) * time.Microsecond
	s.Allowed, s.Soft, s.Remaining, s.Delay = false, false, 0, 0
	s.RetryAfter = max(s.RetryAfter, s.Ban)
	s.ResetAfter, s.Window = max(s.ResetAfter, s.RetryAfter), s.RetryAfter
}

// cost returns the Cost of the Reservation.
func (d *modelDecision) cost() int {
	if !d.allowed {
		return 0
	}
	return d.costs[0]
}

// wait returns the RetryAfter and the Delay of the decision.
func (d *modelDecision) wait() (retryAfter, delay time.Duration) {
	estimate := time.Duration(0)
	defer func() { retryAfter = cmp.Or(retryAfter, estimate) }()
	for i, s := range d.states {
		switch {
		case d.rules[i].shadow:
		case s.Estimate:
			estimate = max(estimate, s.RetryAfter)
		case !s.Allowed:
			retryAfter = max(retryAfter, s.RetryAfter)
		case d.allowed:
			delay = max(delay, s.Delay)
		}
	}
	return retryAfter, delay
}

// settle sets the cost of the asks of only, or of all asks if only is nil. It reports whether there
// are such asks.
func (d *modelDecision) settle(o *oracle.Oracle, now int64, cost int, only *modelLimiter) (found bool) {
	is := func(ask int) bool { return only == nil || d.asks[ask].view.of == only }
	for i := range d.asks {
		if is(i) {
			d.costs[i], found = cost, true
		}
	}
	for i := range d.charges {
		c := &d.charges[i]
		if !slices.ContainsFunc(c.asks, is) || c.rule.isInFlight() || c.rule.isPause() || c.rule.shadow && !c.Verdict.Allowed && len(c.parts) == 0 {
			continue
		}
		change := int64(0)
		for _, ask := range c.asks {
			change += int64(d.costs[ask])
		}
		for _, p := range c.parts {
			change -= p.Cost
		}
		for change < 0 {
			last := &c.parts[len(c.parts)-1]
			undo := *last
			undo.Op, undo.Cost = oracle.Undo, min(last.Cost, -change)
			change += undo.Cost
			if last.Cost -= undo.Cost; last.Cost == 0 {
				c.parts = c.parts[:len(c.parts)-1]
			} else {
				kept := undo.Receipt.Keep(undo.Rule, last.Cost)
				undo.Receipt = &kept
			}
			o.Adjust(now, []oracle.Charge{undo})
		}
		if change > 0 {
			debit := oracle.Charge{Key: c.Key, Rule: c.Rule, Calendar: c.Calendar, Op: oracle.Debit, Cost: change, Receipt: new(oracle.Receipt)}
			o.Adjust(now, []oracle.Charge{debit})
			c.parts = append(c.parts, debit)
		}
	}
	return found
}
