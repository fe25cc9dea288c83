package driver

import (
	"fmt"
	"time"
)

// An Op is a change of the State of a rule.
type Op uint8

const (
	// Spend takes Cost if all charges of the call fit. It is the zero Op.
	Spend Op = iota
	// Peek is a Spend that takes nothing. If it does not fit, the decision is denied.
	Peek
	// Reset forgets the State. The Verdict is that of an unused key, except for Found.
	Reset
	// Credit frees Cost, or all if less is in use. Sliding algorithms forget the newest events.
	Credit
	// Debit takes Cost whether it fits or not. A bucket takes all of it, and repays the debt at its
	// rate; windows and logs count it until they forget.
	Debit
	// Undo frees Cost of the Spend or Debit that wrote the Receipt, as far as it still counts.
	Undo
)

// Asks reports whether op is one of [Store.Take], not of [Store.Adjust], and can be denied.
func (op Op) Asks() bool { return op <= Peek }

// A Charge is the part of a decision that belongs to one rule of one key: an Op and its arguments.
type Charge struct {
	Key  string // any bytes
	Rule *Compiled
	Op   Op
	Cost int // at least 1; ignored by Reset

	// MaxDelay denies a Spend or Peek that a leaky bucket would delay for longer, in whole
	// microseconds. Zero means no bound.
	MaxDelay time.Duration
	// Receipt is written by a Spend or Debit that takes something, unless nil, and read by Undo.
	Receipt *Receipt

	// Verdict is the answer. After an op of Adjust, it is the answer to a Peek of cost 1, except
	// that Allowed is true and RetryAfter zero.
	Verdict Verdict
}

// A Receipt identifies a charge for an Undo, by its time and, for a bucket, by the span that was in
// use before. A Spend or Debit that takes something writes it. The zero Receipt undoes nothing.
type Receipt struct {
	At     int64 // by the clock of the Store, in microseconds
	Used   Span
	Origin int // for a store that is made of others: the number of the one that has the charge

	// Age is the time since the charge in microseconds, by the monotonic clock of the caller of
	// Undo, or 0 if the caller does not know it. If the clock of the store has stepped back after
	// the charge, Age shows that more time has passed than now - At. A charge sets it to 0.
	Age int64
}

// stepped reports whether the clock has stepped back between the charge and now.
func (m Receipt) stepped(now int64) bool { return now-m.At < m.Age }

// Meets reports whether c and o have the same rule and the same key.
func (c *Charge) Meets(o *Charge) bool { return c.Rule.id == o.Rule.id && c.Key == o.Key }

// Asked returns the cost that the Verdict is about: Cost for a Spend or Peek, and 1 for other ops.
func (c *Charge) Asked() int64 {
	if c.Op.Asks() {
		return int64(c.Cost)
	}
	return 1
}

// Patience returns the longest accepted delay in microseconds. [Never] means no bound.
func (c *Charge) Patience() int64 {
	if c.MaxDelay == 0 || !c.Op.Asks() {
		return Never
	}
	return int64(c.MaxDelay / time.Microsecond)
}

// Read returns the meaning of s for c at the time now. It does not change s.
func (c *Charge) Read(s State, now int64) (r Reading) {
	c.Rule.read(&r, s, now, c.Asked())
	return r
}

// Fits reports whether the rule of c, a Spend or Peek, admits it, given r.
func (c *Charge) Fits(r *Reading) bool { return c.Rule.fits(r, int64(c.Cost), c.Patience()) }

// Commit applies c, a Spend or Peek, to s. r is the Reading of s at now. admitted reports whether
// the charge of every rule that is not a shadow rule fits. Commit is called for denied decisions,
// too: a State that is later than now has to be corrected.
//
// Commit returns the new State, and whether it has to be stored. It leaves the Verdict to
// [Charge.Answer]. If the State cannot be stored because another process has changed it meanwhile,
// set the Receipt to its zero value, read again and repeat.
func (c *Charge) Commit(s State, r *Reading, now int64, admitted bool) (_ State, changed bool) {
	switch {
	case !c.Op.Asks():
		panic(fmt.Sprintf("weir: %d is no op of Take", c.Op))
	case admitted && c.Fits(r):
	case r.moved: // without a correction, the key would be locked out until the clock has caught up
		return c.Rule.engine.rewrite(s, *r, now), true
	default:
		return s, false
	}
	if c.Op == Peek {
		return s, false
	}
	if c.Receipt != nil {
		*c.Receipt = r.Receipt(now)
	}
	return c.Rule.spend(s, r, now, int64(c.Cost)), true
}

// Apply applies c, an op of [Store.Adjust], to s, and fills in the Verdict. r is the Reading of s
// at now. Apply returns the new State, which may be s. If it cannot be stored, see Commit.
func (c *Charge) Apply(s State, r *Reading, now int64) State {
	e, cost := c.Rule.engine, int64(c.Cost)
	switch c.Op {
	case Reset:
		c.answerAt(State{}, now)
		c.Verdict.Found = r.InUse()
		return State{}
	case Debit:
		if c.Receipt != nil {
			*c.Receipt = r.Receipt(now)
		}
		s = e.debit(s, *r, now, cost)
	case Credit:
		s = e.credit(s, *r, now, cost)
	case Undo:
		s = e.undo(s, *r, now, cost, *c.Receipt)
	default:
		panic(fmt.Sprintf("weir: %d is no op of Adjust", c.Op))
	}
	c.answerAt(s, now)
	return s
}

func (c *Charge) answerAt(s State, now int64) {
	r := c.Read(s, now)
	c.Answer(&r, false)
}

// Answer fills in the Verdict from r. For a Spend or Peek, r is the Reading before the charge, and
// admitted is that of Commit. For the ops of Adjust, r is the Reading after the charge.
func (c *Charge) Answer(r *Reading, admitted bool) {
	c.Rule.verdict(&c.Verdict, r, c.Asked(), c.Patience(), admitted && c.Op == Spend)
	if !c.Op.Asks() {
		c.Verdict.Allowed, c.Verdict.RetryAfter, c.Verdict.Soft = true, 0, false
	}
}
