package core

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// An event is the record of one decision: the asks, the charges that the Store gets and answers, and
// the lines that connect them. Every verb fills an event. Those of [AllowTogether] and [Limiter.Debit]
// are used again; a [Reservation] keeps its event, whose charges then tell the cost that is still charged.
//
// Nearly all events have one ask with one rule, which the event itself has room for. The lines of
// others are in more.
type event struct {
	line     [1]line
	charge   [1]driver.Charge
	ask      [1]asked
	more     *spill // nil unless needed
	several  bool   // the lines, charges and asks are those of more
	blocked  bool   // the limit of an enforced rule is Blocked: the Store is not asked
	denied   bool   // of a Reservation: nothing is charged
	takes    bool   // a charge takes a place of an in-flight rule
	nLines   int8   // the number of lines and asks in the event itself: 0 or 1
	nCharges int8   // the number of charges there: 0 or 1
}

// A line is one rule of one ask. Lines with the same rule and key have one charge, because a call of a
// Store must not contain two.
type line struct {
	rule   Rule
	ask    int32
	charge int32         // the index of the charge; noCharge for a limit that is never charged
	ends   time.Duration // of a rule that is Blocked, until the block ends; 0 if it does not end
}

const noCharge = -1

// asked is the part of an Ask that a Reservation needs.
type asked struct {
	limiter *shared
	cost    int // the total cost, zero for a Peek; Settle changes it
}

// events holds events for reuse. The charges of a call escape to the Store, an interface, and would
// otherwise be allocated on every call.
var events = sync.Pool{New: func() any { return new(event) }}

// free ends the use of e. Its elements are not cleared: they are few, and the garbage collector
// empties the pool.
func (e *event) free() {
	if e.several && max(cap(e.more.charges), cap(e.more.lines), cap(e.more.asks)) > 64 {
		return
	}
	e.several, e.blocked, e.takes, e.nLines = false, false, false, 0
	events.Put(e)
}

func (e *event) lines() []line {
	if e.several {
		return e.more.lines
	}
	return e.line[:e.nLines]
}

func (e *event) charges() []driver.Charge {
	if e.several {
		return e.more.charges
	}
	return e.charge[:e.nCharges]
}

func (e *event) asks() []asked {
	if e.several {
		return e.more.asks
	}
	return e.ask[:e.nLines]
}

// decide fills e, which is new or was freed, with asks, and calls the Store, which charges all or none.
// The Store does not check charges: New has checked the rules, and decide checks the rest. If reserved is
// set, e belongs to a Reservation.
func (e *event) decide(ctx context.Context, asks []Ask, reserved bool) error {
	if len(asks) != 1 {
		if err := e.addTogether(ctx, asks); err != nil {
			return err
		}
	} else {
		a := &asks[0]
		if a.Limiter == nil || a.Key == "" || a.Cost < 0 || a.MaxDelay < 0 {
			return a.check()
		}
		rules, ends, err := a.Limiter.rulesFor(ctx, a.Key, a.Plan)
		if err != nil {
			return err
		}
		e.add(ctx, a, rules, driver.Spend, ends)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	charges := e.charges()
	if e.takes {
		if !reserved || charges[0].AtMost && slices.ContainsFunc(charges, takesOne) {
			return errNoHolder
		}
		if e.more == nil {
			e.more = new(spill)
		}
		e.more.beginHold(asks[0].Limiter.shared)
		for i := range charges {
			if c := &charges[i]; c.Rule.Kind.Holds && !c.Rule.Shadow {
				c.Waiter = e.more.waiter
			}
		}
		// If the end of ctx ended the call, the Store might take places that no caller knows: see Reserve.
		ctx = context.WithoutCancel(ctx)
	}
	switch {
	case len(charges) == 0:
		return nil
	case e.blocked:
		for i := range charges {
			charges[i].Verdict = driver.Verdict{Allowed: true, Unknown: true}
		}
		return nil
	}
	if err := e.carry(ctx); err != nil {
		return err
	}
	err := asks[0].Limiter.store.Take(ctx, charges)
	if e.takes {
		for i := range charges {
			charges[i].Waiter = nil // the charges of a Reservation are those of places
		}
	}
	return err
}

// adjust fills e, which is new or was freed, with an op of [driver.Store.Adjust] for rules, and calls the
// Store. pause is the length that a Debit of a [Pause] sets, the only one of rules. found is the result of a Reset.
func (e *event) adjust(ctx context.Context, op driver.Op, a *Ask, rules []Rule, pause time.Duration) (found bool, err error) {
	if err := a.check(); err != nil {
		return false, err
	}
	e.add(ctx, a, rules, op, 0)
	charges := e.charges()
	if pause > 0 {
		charges[0].Pause = pause
	}
	if err := ctx.Err(); err != nil || len(charges) == 0 {
		return false, err
	}
	if op == driver.Debit {
		if err := e.carry(ctx); err != nil {
			return false, err
		}
	}
	for some := range slices.Chunk(charges, maxCharges) { // of the plans of many lengths
		if err := a.Limiter.store.Adjust(ctx, some); err != nil {
			return false, err
		}
	}
	return slices.ContainsFunc(charges, func(c driver.Charge) bool { return c.Verdict.Found }), nil
}

// carry lets the buckets of e continue from those before the latest calls of [ReplaceAll].
func (e *event) carry(ctx context.Context) error {
	asks, lines := e.asks(), e.lines()
	for i := range lines {
		l := &lines[i]
		if l.charge < 0 {
			continue
		}
		limiter := asks[l.ask].limiter
		for _, f := range slices.Backward(limiter.replaced()) {
			if err := f.carry(ctx, limiter.store, limiter.current.Load(), l.rule, &e.charges()[l.charge]); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds a line for each rule of a, the only ask. The op of the charges is op, or Peek if a.Peek is
// set. ends is that of the choice of rules.
func (e *event) add(ctx context.Context, a *Ask, rules []Rule, op driver.Op, ends time.Duration) {
	if len(rules) != 1 {
		e.begin()
		e.append(ctx, a, rules, op, ends)
		return
	}
	rule, l := rules[0], &e.line[0]
	e.nLines, e.nCharges = 1, 0
	e.ask[0].limiter, e.ask[0].cost = a.Limiter.shared, a.charged()
	if rule.d.compiled == nil {
		*l = line{rule: rule, charge: noCharge, ends: a.blockEnds(rule, ends)}
		e.blocked = blocks(rule)
		return
	}
	if rule.d.elastic != nil {
		rule = rule.d.elastic.rule(rule)
	}
	e.nCharges = 1
	l.rule, l.ask, l.charge, l.ends = rule, 0, 0, 0
	a.fill(&e.charge[0], rule, op)
	if k := rule.d.compiled.Kind; k.Holds || k.Calendar {
		e.fillOther(ctx, &e.charge[0], a, rule)
	}
}

// begin makes e an event of several lines, of which it has none yet.
func (e *event) begin() {
	m := e.more
	if m == nil {
		m = new(spill)
		e.more = m
	}
	if m.lines == nil {
		m.lines, m.charges, m.asks = m.room.lines[:0], m.room.charges[:0], m.room.asks[:0]
	}
	m.lines, m.charges, m.asks, e.several = m.lines[:0], m.charges[:0], m.asks[:0], true
}

// append adds a line for each rule of a, to an event of several lines.
func (e *event) append(ctx context.Context, a *Ask, rules []Rule, op driver.Op, ends time.Duration) {
	m := e.more
	ask, before := int32(len(m.asks)), len(m.charges) // no two rules of a have the same name
	m.asks = append(m.asks, asked{a.Limiter.shared, a.charged()})
	for _, rule := range rules {
		if rule.d.compiled == nil {
			m.lines = append(m.lines, line{rule, ask, noCharge, a.blockEnds(rule, ends)})
			e.blocked = e.blocked || blocks(rule)
			continue
		}
		if rule.d.elastic != nil {
			rule = rule.d.elastic.rule(rule)
		}
		at := len(m.charges)
		m.charges = append(m.charges, driver.Charge{})
		c := &m.charges[at]
		a.fill(c, rule, op)
		if k := rule.d.compiled.Kind; k.Holds || k.Calendar {
			e.fillOther(ctx, c, a, rule)
		}
		for i := range before {
			known := &m.charges[i]
			if !meet(known, c) {
				continue
			}
			if join(known, c); c.Rule.Constants != known.Rule.Constants { // an elastic limit has changed meanwhile
				rule = m.lines[slices.IndexFunc(m.lines, func(l line) bool { return l.charge == int32(i) })].rule
			}
			m.charges, at = m.charges[:at], i
			break
		}
		m.lines = append(m.lines, line{rule, ask, int32(at), 0})
	}
}

// charged returns the cost that a charges: zero for a Peek.
func (a *Ask) charged() int {
	if a.Peek {
		return 0
	}
	return max(a.Cost, 1)
}

// blocks reports whether r, whose limit is never charged, denies all events.
func blocks(r Rule) bool { return r.Limit() == Blocked && !r.d.spec.Shadow }

// blockEnds returns the time until the block of r ends, a rule of a that is never charged, or 0 if r is not blocked or has no
// end. ends is that of the choice of r. A block does not end with the choice if r would be blocked without the choice, too.
func (a *Ask) blockEnds(r Rule, ends time.Duration) time.Duration {
	if ends <= 0 || ends == Never || r.Limit() != Blocked {
		return 0
	}
	own := a.Limiter.view
	s := own.ruleSet()
	if i := s.find(r); i >= 0 {
		rules, _ := s.of(cmp.Or(a.Plan, own.plan))
		if o := rules[i]; o.Limit() == Blocked && (r.d.spec.Shadow || !o.d.spec.Shadow) {
			return 0
		}
	}
	return ends
}

// fill makes c the charge of a to rule. The op of c is op, or Peek if a.Peek is set. c may have been used
// before.
func (a *Ask) fill(c *driver.Charge, rule Rule, op driver.Op) {
	if a.Peek {
		op = driver.Peek
	}
	// One statement for each field: a common one would build the Receipt in a temporary variable first.
	c.Key = a.Key
	c.Rule = rule.d.compiled
	c.Op = op
	c.AtMost = a.atMost
	c.Cost = max(a.Cost, 1)
	c.MaxDelay = a.MaxDelay
	c.Pause = 0
	c.Receipt = driver.Receipt{}
	c.Waiter = nil
	c.Verdict = driver.Verdict{} // a Store may set single fields
}

// fillOther is the rest of fill for an in-flight rule or a quota, so that the compiler can inline fill. A pause has none.
func (e *event) fillOther(ctx context.Context, c *driver.Charge, a *Ask, rule Rule) {
	switch k := c.Rule.Kind; {
	case k.Calendar:
		c.Rule = rule.d.during(ctx, a.Limiter.now(), a.Key)
	case k.Holds:
		if !c.Rule.ByCost {
			c.Cost = 1
		}
		e.takes = e.takes || c.Op == driver.Spend
		if a.Limiter.local {
			c.Rule = c.Rule.Lasting
		}
	}
}

// meet reports whether c and o have the same state.
func meet(c, o *driver.Charge) bool { return c.Rule.ID == o.Rule.ID && c.Key == o.Key }

// join adds other to c. It adds the costs, keeps the larger cost of two Peeks, and drops a Peek if the
// other charge is not a Peek.
func join(c, other *driver.Charge) {
	if c.MaxDelay == 0 || other.MaxDelay > 0 && other.MaxDelay < c.MaxDelay {
		c.MaxDelay = other.MaxDelay
	}
	switch {
	case other.Op == driver.Peek && c.Op == driver.Peek:
		c.Cost = max(c.Cost, other.Cost)
	case other.Op == driver.Peek:
	case c.Op == driver.Peek:
		c.Op, c.Cost = other.Op, other.Cost
	case takesOne(*c): // one place for both
	default:
		c.Cost = saturated(c.Cost, other.Cost)
	}
}

// takesOne reports whether the rule of c is in flight, and an event takes one place, whatever it costs.
func takesOne(c driver.Charge) bool { return c.Rule.Kind.Holds && !c.Rule.ByCost }

// saturated returns a + b, or the largest int.
func saturated(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

// conclude stores in d, which must be zero, the decision about e. It is the only place that turns
// verdicts into a decision. If reserved is set, e belongs to a Reservation, and keeps the States for
// the next call.
func (e *event) conclude(d *Decision, reserved bool) {
	lines, charges := e.lines(), e.charges()
	if len(lines) == 0 {
		return
	}
	d.Allowed, d.n = true, len(lines)
	known := false               // the States after the first one
	estimate := time.Duration(0) // of the rules that cannot know better
	if d.n > 1 {
		d.rest, known = e.more.states(d.n-1, reserved)
	}
	for i := range lines {
		l := &lines[i]
		var v *driver.Verdict
		rule := l.rule
		switch {
		case l.ends > 0:
			v = &driver.Verdict{RetryAfter: l.ends, ResetAfter: l.ends, Window: l.ends}
		case l.charge == noCharge:
			v = uncharged(rule)
		default:
			switch v = &charges[l.charge].Verdict; {
			case !v.Allowed && rule.Kind().Closes:
				rule = rule.closed()
			case v.Rule != nil && v.Rule != rule.d.compiled:
				rule = rule.ruleOf(v.Rule)
			}
		}
		switch {
		case i == 0:
			d.first.set(rule, v)
		case !known:
			d.rest[i-1].set(rule, v)
			d.rest[i-1].Ask = int(l.ask)
		}
		if v.Period > 0 {
			d.state(i).period = v.Period
		}
		retryAfter := v.RetryAfter
		if !v.Allowed && v.RetryAfter != Never && l.charge >= 0 && rule.Kind().Holds {
			d.state(i).Estimate = true
			if retryAfter = 0; !l.rule.d.spec.Shadow {
				estimate = max(estimate, v.RetryAfter)
			}
		}
		if !l.rule.d.spec.Shadow {
			d.require(v.Allowed && !v.Unknown, retryAfter, v.Delay)
		}
	}
	if !d.Allowed {
		d.Delay = 0
		if d.RetryAfter == 0 {
			d.RetryAfter = estimate
		}
	}
}
