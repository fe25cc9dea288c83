package core

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A ledger holds the decision and the charges of a Reservation.
type ledger struct {
	store    Store
	decision Decision
	asks     []reserved
	rules    []ruleCharges
	initial  struct { // the arrays of asks and rules, unless there are more
		asks  [2]reserved
		rules [2]ruleCharges
	}
}

// reserved is an ask of a Reservation, and its total cost.
type reserved struct {
	limiter *shared
	cost    int
}

// ruleCharges holds the charges of a Reservation to one rule for one key.
type ruleCharges struct {
	key       string
	rule      *driver.Compiled // of the first charge
	uncounted bool             // the rule is a shadow rule that did not count the event
	ask       int32            // the index of the first ask that charges the rule
	asks      []int32          // the indices of the other asks that charge it
	parts     []part           // the charged costs that can be undone, the newest last
	lost      int              // the charged cost that cannot be undone any more
	first     [1]part          // the array of parts, unless there are more
}

// A part holds the cost of one Spend or Debit that has not been undone.
type part struct {
	cost    int
	receipt driver.Receipt
	rule    *driver.Compiled // the rule of the charge: an undo under another limit would free another part
	applied *driver.Compiled // the rule that the Store applied: see driver.Verdict
	since   time.Duration    // when the call of the Store returned, as sinceStart returns it
}

// maxParts is the largest number of parts for one rule and key.
const maxParts = 16

// sinceStart returns the time since the program was started, by its monotonic clock. It takes a third
// less time than time.Now.
func sinceStart() time.Duration { return time.Since(start) }

var start = time.Now()

// age returns the microseconds since p was charged, minus a tolerance of a second and a thousandth
// of the age. Without the tolerance, a server clock that runs slower than the clock of this
// process, or is set back a little every day, would be taken for a clock that stepped back.
func (p *part) age() int64 {
	age := sinceStart() - p.since
	return max(0, age-age/1000-time.Second).Microseconds()
}

// add adds p, and forgets the oldest part if there are too many.
func (c *ruleCharges) add(p part) *part {
	if len(c.parts) == maxParts {
		c.lost = saturated(c.lost, c.parts[0].cost)
		c.parts = c.parts[1:]
	}
	c.parts = append(c.parts, p)
	return &c.parts[len(c.parts)-1]
}

func (c *ruleCharges) charged() int {
	sum := c.lost
	for _, p := range c.parts {
		sum = saturated(sum, p.cost)
	}
	return sum
}

// undo removes cost, or less, from the newest part, and returns an Undo of the removed cost.
func (c *ruleCharges) undo(cost int) driver.Charge {
	last := len(c.parts) - 1
	p := &c.parts[last]
	cost = min(cost, p.cost)
	p.cost -= cost
	receipt := p.applied.Keep(p.receipt, int64(p.cost))
	receipt.Age = p.age()
	if p.cost == 0 {
		c.parts = c.parts[:last]
	}
	return driver.Charge{Key: c.key, Rule: p.rule, Op: driver.Undo, Cost: cost, Receipt: &receipt}
}

// newLedger returns a ledger for n charges to s.
func newLedger(s Store, n int) *ledger {
	l := &ledger{store: s}
	l.asks = l.initial.asks[:0]
	if l.rules = l.initial.rules[:min(n, 2)]; n > 2 {
		l.rules = make([]ruleCharges, n)
	}
	return l
}

// keep stores the charges of b, a batch about asks, in l after the Store has applied them.
func (l *ledger) keep(b *batch, asks []Ask, allowed bool) {
	for i := range asks {
		a := reserved{limiter: asks[i].Limiter.shared}
		if !asks[i].Peek {
			a.cost = max(asks[i].Cost, 1)
		}
		l.asks = append(l.asks, a)
	}
	if !allowed {
		l.rules = nil
		return
	}
	now := sinceStart()
	l.rules = l.rules[:len(b.charges)]
	for i := range b.charges {
		c, k := &b.charges[i], &l.rules[i]
		k.key, k.rule, k.ask = c.Key, c.Rule, -1
		if c.Op == driver.Spend && c.Verdict.Allowed {
			k.parts = k.first[:]
			p := &k.parts[0]
			p.cost, p.rule, p.applied, p.since = c.Cost, c.Rule, cmp.Or(c.Verdict.Rule, c.Rule), now
		}
		k.uncounted = c.Rule.Shadow() && !c.Verdict.Allowed
	}
	for i := range b.rules {
		if at := b.place(i); at >= 0 {
			l.rules[at].addAsk(int32(b.ask(i)))
		}
	}
}

// addAsk records that the i-th ask charges the rule.
func (c *ruleCharges) addAsk(i int32) {
	if c.ask < 0 {
		c.ask = i
		return
	}
	c.asks = append(c.asks, i)
}

// append adds the charges of o, a later ledger of the same event.
func (l *ledger) append(o *ledger) {
	first := len(l.asks)
	l.decision = l.decision.combine(first, o.decision)
	l.asks = append(l.asks, o.asks...)
	if !o.decision.Allowed {
		return
	}
	for _, c := range o.rules {
		c.ask += int32(first)
		for i := range c.asks {
			c.asks[i] += int32(first)
		}
		at := slices.IndexFunc(l.rules, func(o ruleCharges) bool { return o.rule.ID() == c.rule.ID() && o.key == c.key })
		if at < 0 {
			l.rules = append(l.rules, c)
			continue
		}
		known := &l.rules[at]
		known.asks = append(append(known.asks, c.ask), c.asks...)
		for _, p := range c.parts {
			known.add(p)
		}
	}
}

// settle changes the charged cost of each rule c to total(c). asks, unless it is nil, contains the
// costs of all asks from now on.
func (l *ledger) settle(ctx context.Context, asks []reserved, total func(c *ruleCharges) int) error {
	changes := make([]int, len(l.rules)) // above zero: a Debit, below: an Undo
	for i := range l.rules {
		changes[i] = total(&l.rules[i]) - l.rules[i].charged()
	}
	if slices.ContainsFunc(changes, func(n int) bool { return n != 0 }) {
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if asks != nil {
		l.asks = asks
	}
	if err := l.undo(ctx, changes); err != nil {
		return err
	}
	return l.debit(ctx, changes)
}

// undo applies the negative changes. Each call of the Store undoes the newest part of each rule.
func (l *ledger) undo(ctx context.Context, changes []int) error {
	for {
		var charges []driver.Charge
		for i := range l.rules {
			if c := &l.rules[i]; changes[i] < 0 && len(c.parts) > 0 {
				undo := c.undo(-changes[i])
				changes[i] += undo.Cost
				charges = append(charges, undo)
			}
		}
		if len(charges) == 0 {
			return nil
		}
		if err := l.adjust(ctx, charges); err != nil {
			return err
		}
	}
}

// debit applies the positive changes.
func (l *ledger) debit(ctx context.Context, changes []int) error {
	var charges []driver.Charge
	var parts []*part
	for i, cost := range changes {
		if cost > 0 {
			c := &l.rules[i]
			p := c.add(part{cost: cost, rule: c.rule})
			parts = append(parts, p)
			charges = append(charges, driver.Charge{Key: c.key, Rule: c.rule, Op: driver.Debit, Cost: cost, Receipt: &p.receipt})
		}
	}
	if len(charges) == 0 {
		return nil
	}
	err := l.adjust(ctx, charges)
	for i, p := range parts {
		p.applied, p.since = cmp.Or(charges[i].Verdict.Rule, p.rule), sinceStart()
	}
	return err
}

func (l *ledger) adjust(ctx context.Context, charges []driver.Charge) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.store.Adjust(ctx, charges)
}
