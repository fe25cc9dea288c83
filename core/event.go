package core

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/bounds"
	"github.com/weir-go/weir/core/internal/hold"
)

// An event is the record of one decision: the charges that the Store gets and answers, and the lines that connect
// them with the asks. Every verb fills an event. Those of [AllowTogether] and [Limiter.Debit] are used again; a
// [Reservation] keeps its event, whose charges then tell the cost that is still charged.
//
// Nearly all events have one ask with one rule, which the event itself has room for. The lines and charges of others
// are in its spill.
type event struct {
	line     [1]line
	charge   [1]driver.Charge
	spill    *spill // nil unless needed
	several  bool   // the lines and charges are those of spill
	blocked  bool   // the limit of an enforced rule is Blocked: the Store is not asked
	denied   bool   // of a Reservation: nothing is charged
	takes    bool   // a charge takes a place of an in-flight rule
	bans     bool   // a charge is the pause of a rule with BlockFor
	nLines   int8   // the number of lines in the event itself: 0 or 1
	nCharges int8   // the number of charges there: 0 or 1
}

// A line is one rule of one ask. Lines with the same rule and key have one charge, because a call of a
// Store must not contain two.
type line struct {
	rule    Rule
	limiter *shared       // that of the ask
	cost    int           // the total cost of the ask, zero for a Peek; Settle changes it
	ask     int16         // the index of the ask
	charge  int16         // the index of the charge; noCharge for a limit that is never charged
	ban     int16         // the index of the charge of the pause of a rule with BlockFor, or noCharge
	ends    time.Duration // of a rule that is Blocked, until the block ends; 0 if it does not end
}

const noCharge = -1

// A spill holds the parts of an event that do not fit in it: the lines and charges if it has several, and the parts that
// few Reservations have.
type spill struct {
	lines   []line
	charges []driver.Charge

	rest   []State        // of a Reservation: the States of all lines but the first, once they are made
	later  []raises       // of a Reservation, for each charge; nil until the cost is raised
	holds  *hold.Holds    // of a Reservation: its places; nil if it has none
	begun  time.Duration  // when its decision was sent, if it has places
	waiter *driver.Waiter // the caller who waits for places, or nil

	room struct { // so that an event of two rules takes one allocation
		lines   [2]line
		charges [2]driver.Charge
		rest    [1]State
	}
}

// events holds events for reuse. The charges of a call escape to the Store, an interface, and would
// otherwise be allocated on every call.
var events = sync.Pool{New: func() any { return new(event) }}

// free ends the use of e. Its elements are not cleared: they are few, and the garbage collector
// empties the pool.
func (e *event) free() {
	if e.several && max(cap(e.spill.charges), cap(e.spill.lines)) > 64 {
		return
	}
	e.several, e.blocked, e.takes, e.bans, e.nLines, e.nCharges = false, false, false, false, 0, 0
	events.Put(e)
}

func (e *event) lines() []line {
	if e.several {
		return e.spill.lines
	}
	return e.line[:e.nLines]
}

func (e *event) charges() []driver.Charge {
	if e.several {
		return e.spill.charges
	}
	return e.charge[:e.nCharges]
}

// decide fills e, which is new or was freed, with asks, and calls the Store, which charges all or none.
// The Store does not check charges: New has checked the rules, and decide checks the rest. If reserved is
// set, e belongs to a Reservation.
func (e *event) decide(ctx context.Context, asks []Ask, reserved bool) error {
	if len(asks) == 1 {
		a := &asks[0]
		if a.Limiter == nil || a.Key == "" || a.Cost < 0 || a.MaxDelay < 0 {
			return a.check()
		}
		rules, ends, err := a.Limiter.rulesFor(ctx, a.Key, a.Plan)
		if err != nil {
			return err
		}
		e.add(ctx, 0, a, rules, driver.Spend, ends)
	} else if err := e.addTogether(ctx, asks); err != nil {
		return err
	}
	charges := e.charges()
	if n := len(charges); n > bounds.Charges { // of several asks, or with the bans of a Variant
		return invalidAsk(fmt.Sprintf("%d rules and bans for keys in one call, more than %d", n, bounds.Charges))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.takes {
		if !reserved || charges[0].AtMost && slices.ContainsFunc(charges, takesOne) {
			return errNoHolder
		}
		e.beginHold(asks[0].Limiter.shared)
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
	if e.bans && err == nil {
		e.beginBans(ctx, asks)
	}
	if e.takes {
		for i := range charges {
			charges[i].Waiter = nil // the charges of a Reservation are those of places
		}
	}
	return err
}

// beginHold notes that a decision about places is sent to the Store of l, after it has freed the places
// there that no reservation has any more.
func (e *event) beginHold(l *shared) {
	m := e.spilled()
	m.begun = hold.Now()
	if l.local {
		hold.Sweep(l.store)
	}
	for i := range e.charges() {
		if c := &e.charges()[i]; c.Rule.Kind.Holds && !c.Rule.Shadow {
			c.Waiter = m.waiter
		}
	}
}

// spilled returns the spill of e, which may be new.
func (e *event) spilled() *spill {
	if e.spill == nil {
		e.spill = new(spill)
	}
	return e.spill
}

// carry lets the buckets of e continue from those before the latest calls of [ReplaceAll].
func (e *event) carry(ctx context.Context) error {
	lines := e.lines()
	for i := range lines {
		l := &lines[i]
		if l.charge < 0 || l.limiter.formers.Load() == nil {
			continue
		}
		for _, f := range slices.Backward(l.limiter.replaced()) {
			if err := f.carry(ctx, l.limiter.store, l.limiter.current.Load(), l.rule, &e.charges()[l.charge]); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds a line for each rule of a, the ask with that index. The op of the charges is op, or Peek if a.Peek is
// set. ends is that of the choice of rules.
func (e *event) add(ctx context.Context, ask int, a *Ask, rules []Rule, op driver.Op, ends time.Duration) {
	if len(rules) == 1 && !e.several && rules[0].d.ban == nil {
		e.nLines = 1
		if e.fill(ctx, &e.line[0], &e.charge[0], a, rules[0], op, ends) {
			e.nCharges = 1
		}
		return
	}
	if !e.several {
		e.begin()
	}
	m := e.spill
	before := len(m.charges) // no two rules of a have the same name, unless Replace has added that of a ban of a Variant
	for _, rule := range rules {
		n, at := len(m.lines), len(m.charges)
		m.lines, m.charges = slices.Grow(m.lines, 1)[:n+1], slices.Grow(m.charges, 1)[:at+1]
		l, c := &m.lines[n], &m.charges[at]
		if l.ask = int16(ask); !e.fill(ctx, l, c, a, rule, op, ends) {
			m.charges = m.charges[:at]
			continue
		}
		among := m.charges[:before]
		if e.bans {
			among = m.charges[:at]
		}
		if i := meeting(among, c); i >= 0 {
			if join(&m.charges[i], c); c.Rule.Constants != m.charges[i].Rule.Constants { // an elastic limit has changed meanwhile
				l.rule = m.lines[slices.IndexFunc(m.lines, func(l line) bool { return l.charge == int16(i) })].rule
			}
			m.charges, at = m.charges[:at], i
		}
		if l.charge = int16(at); rule.d.ban != nil && (op.Asks() || op == driver.Reset) {
			e.addBan(n, rule, a)
		}
	}
}

// addTogether adds the lines of any number of asks, with rules that were in force at one moment.
func (e *event) addTogether(ctx context.Context, asks []Ask) error {
	if err := checkTogether(asks); err != nil {
		return err
	}
	var few struct {
		choices [4]choice
		sets    [4]*ruleSet
		rules   [4][]Rule
	}
	choices, sets, rules := few.choices[:0], few.sets[:0], few.rules[:0]
	err := readRules(func() error {
		choices, sets = choices[:0], sets[:0]
		for i := range asks {
			if j := slices.IndexFunc(asks[:i], func(o Ask) bool { return asks[i].sameChoice(&o) }); j >= 0 { // the function of Choose might choose another view now
				choices, sets = append(choices, choices[j]), append(sets, sets[j])
				continue
			}
			c, err := asks[i].Limiter.choose(ctx, asks[i].Key, asks[i].Plan)
			if err != nil {
				return err
			}
			choices, sets = append(choices, c), append(sets, c.ruleSet())
		}
		return nil
	})
	if err != nil {
		return err
	}
	e.begin()
	for i := range asks {
		rules = append(rules, choices[i].planned(sets[i]))
		for j := range i {
			if asks[i].Key == asks[j].Key && conflict(rules[i], rules[j]) {
				return invalidAsk(fmt.Sprintf("asks %d and %d have different limits for one rule and key", j, i))
			}
		}
		e.add(ctx, i, &asks[i], rules[i], driver.Spend, choices[i].ends)
	}
	return nil
}

// begin makes e an event of several lines, of which it has none yet.
func (e *event) begin() {
	m := e.spilled()
	if m.lines == nil {
		m.lines, m.charges = m.room.lines[:0], m.room.charges[:0]
	}
	m.lines, m.charges, e.several = m.lines[:0], m.charges[:0], true
}

// fill makes l and c the line and the charge of rule, one of those of a, and reports whether it is charged. Both may
// have been used before. fill does not set the index of the ask, and sets that of the charge to 0.
func (e *event) fill(ctx context.Context, l *line, c *driver.Charge, a *Ask, rule Rule, op driver.Op, ends time.Duration) bool {
	l.limiter, l.cost, l.charge, l.ban, l.ends = a.Limiter.shared, max(a.Cost, 1), 0, noCharge, 0
	if a.Peek {
		op, l.cost = driver.Peek, 0
	}
	if op != driver.Reset && op != driver.Credit { // operators may use these while a limit is off
		rule = a.Limiter.inForce(rule)
	}
	l.rule = rule
	if rule.d.compiled == nil {
		l.charge, l.ends = noCharge, a.blockEnds(rule, ends)
		e.blocked = e.blocked || rule.Limit() == Blocked && !rule.d.spec.Shadow
		return false
	}
	if rule.d.elastic != nil {
		rule = rule.d.elastic.rule(rule)
		l.rule = rule
	}
	// One statement for each field: a common one would build the Receipt in a temporary variable first.
	c.Key = a.Key
	c.Rule = rule.d.compiled
	c.Op = op
	c.AtMost = a.atMost
	c.Cost = max(a.Cost, 1)
	c.MaxDelay = a.MaxDelay
	c.Pause, c.Ban = 0, false
	c.Receipt = driver.Receipt{}
	c.Waiter = nil
	c.Verdict = driver.Verdict{} // a Store may set single fields
	switch k := c.Rule.Kind; {
	case k.Calendar:
		c.Rule = rule.d.during(ctx, a.Limiter.now(), a.Key)
	case k.Holds:
		if !c.Rule.ByCost {
			c.Cost = 1
		}
		e.takes = e.takes || op == driver.Spend
		if a.Limiter.local {
			c.Rule = c.Rule.Lasting
		}
	}
	return true
}

// meeting returns the index of the charge that has the same state as c, or -1.
func meeting(charges []driver.Charge, c *driver.Charge) int {
	for i := range charges {
		if o := &charges[i]; o.Rule.ID == c.Rule.ID && o.Key == c.Key {
			return i
		}
	}
	return -1
}

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
		d.rest, known = e.states(d.n-1, reserved)
	}
	for i := range lines {
		l := &lines[i]
		var v *driver.Verdict
		rule, shadow := l.rule, l.rule.d.spec.Shadow
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
		var ban time.Duration
		if l.ban != noCharge && !charges[l.ban].Verdict.Allowed {
			v, ban = bannedVerdict(v, &charges[l.ban].Verdict), charges[l.ban].Verdict.RetryAfter
		}
		retryAfter := v.RetryAfter
		estimated := !v.Allowed && v.RetryAfter != Never && l.charge >= 0 && rule.Kind().Holds
		if estimated {
			if retryAfter = 0; !shadow {
				estimate = max(estimate, v.RetryAfter)
			}
		}
		if i == 0 || !known {
			s := d.state(i)
			s.Rule, s.Ask, s.Estimate, s.period, s.Ban = rule, int(l.ask), estimated, v.Period, ban
			// Single fields, because v has just been written: the processor would wait for a copy of the whole.
			s.Allowed, s.Unknown, s.Soft, s.Remaining = v.Allowed, v.Unknown, v.Soft, v.Remaining
			s.RetryAfter, s.ResetAfter, s.Window, s.Delay = v.RetryAfter, v.ResetAfter, v.Window, v.Delay
		}
		switch {
		case shadow:
		case v.Allowed && !v.Unknown:
			d.Delay = max(d.Delay, v.Delay)
		default:
			d.Allowed, d.RetryAfter = false, max(d.RetryAfter, retryAfter)
		}
	}
	if !d.Allowed {
		d.Delay = 0
		if d.RetryAfter == 0 {
			d.RetryAfter = estimate
		}
	}
}

// states returns room for n States, or, if known, the States of an earlier call with reserved.
// Decisions that were returned share them, so they must not change.
func (e *event) states(n int, reserved bool) (s []State, known bool) {
	m := e.spill
	switch {
	case !reserved:
		return make([]State, n), false
	case m.rest != nil:
		return m.rest, true
	case n <= len(m.room.rest):
		m.rest = m.room.rest[:n]
	default:
		m.rest = make([]State, n)
	}
	return m.rest, false
}

// observe tells the Observer, if there is one, about asks, the arguments of e, and their decision d, or
// the error in place of d.
func (e *event) observe(asks []Ask, d *Decision, err error) {
	lines := e.lines()
	if len(lines) == 0 || asks[0].Limiter.observer == nil || err != nil && errors.Is(err, ErrInvalidAsk) {
		return
	}
	o, peek, attempted := asks[0].Limiter.observer, true, false
	for i := range asks {
		peek = peek && asks[i].Peek
	}
	switch asks[0].attempt {
	case unlessAllowed:
		attempted = err == nil && !d.Allowed
	case unlessDenied:
		attempted, peek = err == nil && d.Allowed, false
	case always:
		attempted = true
	}
	if attempted || peek {
		o.Ask(!attempted)
		return
	}
	failed, binding := driver.Result(0), 0
	if err != nil {
		failed = failure(err)
	} else if len(lines) > 1 {
		binding = d.binding()
	}
	for i := range lines {
		n := driver.Observation{Key: asks[lines[i].ask].Key, Result: failed}
		if failed == 0 {
			s := d.state(i)
			n.Result, n.RetryAfter = s.result(), s.RetryAfter
			if c := s.Rule.d.compiled; c != nil && !s.Unknown {
				n.Remaining, n.Capacity = s.Remaining, s.Rule.Capacity()
			}
		}
		if i == binding {
			if n.Decision = n.Result; failed == 0 && lines[i].rule.d.spec.Shadow {
				n.Decision = driver.Allowed
			}
		}
		lines[i].rule.d.counter(o)(n)
	}
}

// failure returns the Result of an event that could not be decided because of err.
func failure(err error) driver.Result {
	if !errors.Is(err, ErrUnavailable) && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return driver.Canceled
	}
	return driver.Failed
}
