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
	// Peek gives the answer of a Spend and takes nothing. A Peek that does not fit denies the
	// decision like a Spend.
	Peek
	// Reset forgets the State. The Verdict is that of an untouched key, and says whether anything
	// was in use.
	Reset
	// Credit gives back Cost, or as much of it as is used now: of a log or sliding window, the
	// newest events.
	Credit
	// Debit takes Cost whether it fits or not, into debt if need be. A bucket takes all of it, and
	// pays its debt back at its rate; windows and logs count it until they forget.
	Debit
	// Undo gives back Cost of the Spend or Debit that wrote the Receipt, or as much of it as still
	// counts.
	Undo
)

// Asks says whether op is one of [Store.Take], which can be denied; the others are those of
// [Store.Adjust].
func (op Op) Asks() bool { return op <= Peek }

// A Charge is one rule of one key, and an Op with its arguments.
type Charge struct {
	Key  string // any bytes
	Rule *Compiled
	Op   Op
	Cost int // at least 1; ignored by Reset

	// MaxDelay denies a Spend or Peek that a leaky bucket would hold for longer, in whole
	// microseconds; zero is no bound.
	MaxDelay time.Duration
	// Receipt, if it is not nil, is written by a Spend or Debit that takes something, and read by
	// an Undo.
	Receipt *Receipt

	// Verdict is the answer. After an op of Adjust it is that of a Peek of 1 that comes next, with
	// Allowed set and without a RetryAfter.
	Verdict Verdict
}

// Meets says whether c and o are about one rule of one key.
func (c *Charge) Meets(o *Charge) bool { return c.Rule.id == o.Rule.id && c.Key == o.Key }

// Asked is the cost that the Verdict is about: that of a Spend or Peek, and else 1.
func (c *Charge) Asked() int64 {
	if c.Op.Asks() {
		return int64(c.Cost)
	}
	return 1
}

// Patience is how long the event may be held, in microseconds; [Never] is no bound.
func (c *Charge) Patience() int64 {
	if c.MaxDelay == 0 || !c.Op.Asks() {
		return Never
	}
	return int64(c.MaxDelay / time.Microsecond)
}

// Read returns the meaning of s for c at now. It changes nothing.
func (c *Charge) Read(s State, now int64) (r Reading) {
	c.Rule.read(&r, s, now, c.Asked())
	return r
}

// Fits says whether c, a Spend or Peek, is admitted at r as far as its own rule goes.
func (c *Charge) Fits(r *Reading) bool { return c.Rule.fits(r, int64(c.Cost), c.Patience()) }

// Commit does c, a Spend or Peek, to s, of which r was read at now. admitted says whether all
// charges of the decision fit whose rules are no shadows; a decision that is denied calls Commit,
// too, since a State from after now is written back. Commit returns the new State, and whether that
// has to be stored; it leaves the Verdict to [Charge.Answer]. If it cannot be stored, because
// another process has changed the State meanwhile, read again and repeat; set the Receipt to its
// zero value first, since Commit has written it.
func (c *Charge) Commit(s State, r *Reading, now int64, admitted bool) (_ State, changed bool) {
	switch {
	case !c.Op.Asks():
		panic(fmt.Sprintf("weir: %d is no op of Take", c.Op))
	case admitted && c.Fits(r):
	case r.moved:
		// Otherwise all later readings would be the same, and the key locked out until the clock
		// has caught up.
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

// Apply does c, an op of [Store.Adjust], to s, of which r was read at now, and fills in the
// Verdict. It returns the new State, which may be s. If that cannot be stored, repeat as for
// Commit.
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

// Answer fills in the Verdict from r. For a Spend or Peek, r was read before anything was taken,
// and admitted is that of Commit; for the ops of Adjust, r was read afterwards.
func (c *Charge) Answer(r *Reading, admitted bool) {
	c.Verdict.set(c.Rule, r, c.Asked(), c.Patience(), admitted && c.Op == Spend)
	if !c.Op.Asks() {
		c.Verdict.Allowed, c.Verdict.RetryAfter, c.Verdict.Soft = true, 0, false
	}
}
