package driver

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/core/internal/waiters"
)

// An Op is an operation on the State of a rule.
type Op uint8

const (
	// Spend takes Cost if all charges of the call fit. It is the zero Op.
	Spend Op = iota
	// Peek is a Spend that takes nothing. If it does not fit, the decision is denied.
	Peek
	// Reset forgets the State. The Verdict is that of an unused key, except for Found.
	Reset
	// Credit frees Cost, or all if less is in use. Sliding algorithms forget the newest events, but
	// only events at the newest 1000 times in the log. Older events stay. A pause does not change.
	Credit
	// Debit takes Cost whether it fits or not. A bucket goes into debt if necessary, and repays the
	// debt at its rate. Windows and logs count the cost until it expires. A pause lasts for Pause from now, or
	// until its present end if that is later.
	Debit
	// Undo frees up to Cost units that still count, of the Spend or Debit that wrote the Receipt. If
	// a sliding log has events at 1000 or more later times, it frees nothing. It frees the place of an
	// in-flight rule.
	Undo
	// Renew makes the place of the Receipt lapse Hold from now, unless it has lapsed already. The Verdict
	// reports that in Found. The rule must be in flight.
	Renew
)

// Asks reports whether op belongs to [Store.Take], not to [Store.Adjust], and can be denied.
func (op Op) Asks() bool { return op <= Peek }

// A Charge is the part of a decision that belongs to one rule of one key: an Op and its arguments.
type Charge struct {
	Key  string // any bytes
	Rule *Compiled
	Op   Op
	// AtMost makes Cost the largest cost of a Spend: see [Store].
	AtMost bool
	// Ban says that denials of another rule begin the pause, whose name is that of the rule and ".ban": see core.Spec.BlockFor.
	// A Debit then leaves the end of a pause. A Spend may be followed by that Debit, and a Peek is not. A Store over another one
	// may take a pause that was open as open for a second.
	Ban  bool
	Cost int // at least 1; ignored by Reset; 1 for an in-flight rule without ByCost

	// If a leaky bucket would delay a Spend or Peek for longer than MaxDelay, the charge is denied.
	// MaxDelay is rounded down to microseconds. Zero means no bound.
	MaxDelay time.Duration
	// Pause is the length that the Debit of a pause sets, in whole microseconds, up to 366 days.
	Pause time.Duration
	// A Spend or Debit that takes something sets Receipt, which must be zero before (a pause takes nothing). An Undo and a
	// Renew read it.
	Receipt Receipt
	// Waiter is the caller of a Spend who waits for places, or nil. An Undo with a Waiter removes its queue, and frees
	// nothing. Other ops have none.
	Waiter *Waiter

	// Verdict is the result. For an op of Adjust, it is the result that a Peek of cost 1 would have
	// after the op, except that Allowed is true and RetryAfter zero.
	Verdict Verdict
}

// A Receipt identifies a charge for an Undo or a Renew. It contains the time of the charge or, for an
// in-flight rule, the number of the place, and for a bucket the part that was in use before the charge.
// The zero Receipt undoes nothing. [Compiled.Receipt] makes one.
type Receipt struct {
	At     int64 // by the clock of the Store, in microseconds; the numbers of places are such times, too
	Used   Span
	Origin int // for a store over several stores: the number of the store that was charged

	// Age is the time since the charge in microseconds, by the monotonic clock of the caller of
	// Undo, or 0 if the caller does not know it. An Age above now - At shows that the clock of the
	// store has stepped back. A charge sets Age to 0, and its caller may keep there when it was made.
	Age int64
}

// Receipt returns the receipt of a Spend or Debit of c at now with a cost, given the Reading before the charge. It is
// zero for a Pause, which has nothing to undo.
func (c *Compiled) Receipt(r *Reading, now, cost int64) Receipt {
	switch k := c.Kind; {
	case k.Holds:
		now = numberOf(now+r.Number, cost)
	case k.Closes:
		return Receipt{}
	}
	return Receipt{At: now, Used: r.Used}
}

// stepped reports whether the clock has stepped back between the charge and now.
func (m Receipt) stepped(now int64) bool { return now-m.At < m.Age }

// A Verdict is the result of one charge. Package core copies it into a core.State.
type Verdict struct {
	// Rule is the rule that decided: the rule of the charge, or a fraction of it ([Compiled.Divide]).
	Rule *Compiled

	// Done says that an op of Adjust was executed. After an error, it tells these charges from those of which that is not
	// known. It is false for a Spend and a Peek.
	Done bool

	Allowed    bool          // by this rule, regardless of the other rules
	Unknown    bool          // not evaluated, because another rule denied: Allowed is set, Rule may be nil, the rest is zero
	Soft       bool          // allowed, but beyond the limit itself
	Found      bool          // Reset: something was in use before, or had rolled over; Renew: the place had not lapsed
	Period     int32         // of a Quota: the length of the present period in seconds, rounded down
	Remaining  int           // the remaining events of the limit
	RetryAfter time.Duration // denied: the least wait until the same cost fits, or Never
	ResetAfter time.Duration // the time until nothing is in use
	Window     time.Duration // the period that Remaining refers to: see core.State
	Delay      time.Duration // allowed: delay the event this long
}

// asked returns the cost that the Verdict is about, which is 1 for an op of Adjust, and the longest accepted delay in
// microseconds, or [Never].
func (c *Charge) asked() (cost, maxDelay int64) {
	switch {
	case !c.Op.Asks():
		return 1, Never
	case c.MaxDelay == 0:
		return int64(c.Cost), Never
	}
	return int64(c.Cost), int64(c.MaxDelay / time.Microsecond)
}

// Read returns the Reading of s for c at the time now. It does not change s.
func (c *Charge) Read(s State, now int64) (r Reading) {
	c.read(&r, s, now)
	return r
}

func (c *Charge) read(r *Reading, s State, now int64) {
	if p := c.waits(); p != nil {
		p.read(r, s, now, int64(c.Cost), c.Waiter)
	} else {
		cost, _ := c.asked()
		c.Rule.read(r, s, now, cost)
	}
}

// waits returns the engine of c if c is the Spend of a Waiter, and nil otherwise.
func (c *Charge) waits() *places {
	if c.Waiter == nil || c.Op != Spend {
		return nil
	}
	p, _ := c.Rule.engine.(*places)
	return p
}

// Fits reports whether the rule of c admits c, given the Reading r. c must be a Spend or Peek.
func (c *Charge) Fits(r *Reading) bool {
	cost, maxDelay := c.asked()
	return c.Rule.fits(r, cost, maxDelay)
}

// Commit applies c, a Spend or Peek, to s. r is the Reading of s at now. admitted reports whether
// the charges of all enforced rules fit. A Store must call Commit for denied decisions, too,
// because a State that is later than now must be corrected.
//
// Commit returns the new State, and whether the State must be stored. Call [Charge.Answer] with r when it has been
// stored. If it cannot be stored because another process has changed it meanwhile, set the Receipt and, with AtMost, the
// Cost to its first value, read again and repeat.
func (c *Charge) Commit(s State, r *Reading, now int64, admitted bool) (_ State, changed bool) {
	if p := c.waits(); p != nil {
		fits, w := c.Fits(r), *c.Waiter
		if !c.Rule.ByCost {
			w.Next = min(w.Next, 1)
		}
		s, changed = c.commit(s, r, now, admitted)
		s, waits := p.wait(s, r, now, int64(c.Cost), &w, fits || int64(c.Cost) > p.events, admitted && fits)
		return s, changed || waits
	}
	return c.commit(s, r, now, admitted)
}

// commit is Commit for a caller who does not wait.
func (c *Charge) commit(s State, r *Reading, now int64, admitted bool) (_ State, changed bool) {
	switch {
	case !c.Op.Asks():
		panic(fmt.Sprintf("weir: %d is no op of Take", c.Op))
	case admitted && c.Fits(r):
	case r.moved: // without a correction, the key would be locked out until the clock has caught up
		return c.Rule.engine.rewrite(s, *r, now), true
	default:
		return s, false
	}
	if c.Op == Peek || c.Rule.Kind.Closes {
		return s, false
	}
	c.Receipt = c.Rule.Receipt(r, now, int64(c.Cost))
	return c.Rule.spend(s, r, now, int64(c.Cost)), true
}

// Decide is Read, Commit and Answer for the only charge of a decision. It has no AtMost and no Waiter.
func (c *Charge) Decide(s State, now int64) (_ State, changed bool) {
	if b, ok := c.Rule.engine.(*bucket); ok && c.Op.Asks() {
		return b.decide(c, s, now)
	}
	var r Reading
	c.read(&r, s, now)
	s, changed = c.Commit(s, &r, now, true)
	c.Answer(&r, true)
	return s, changed
}

// Apply applies c, an op of [Store.Adjust], to s. r is the Reading of s at now. Apply sets r to that of the new State,
// which may be s, and returns that. Call [Charge.Answer] with r when the State has been stored; if it cannot be, see Commit.
func (c *Charge) Apply(s State, r *Reading, now int64) State {
	e, cost := c.Rule.engine, int64(c.Cost)
	if c.Rule.Kind.Closes {
		if cost = c.Pause.Microseconds(); c.Ban && r.Left > 0 {
			cost = 0
		}
	}
	found := false
	if c.Rule.Kind.Holds && queueCount(s) > 0 {
		r.woken = new([]int64)
	}
	switch c.Op {
	case Reset:
		found = r.Count > 0 || r.Rest > 0 || r.Used != Span{} || c.Rule.Kind.Closes && r.Left > 0
		if p, ok := e.(*places); ok {
			p.wake(putQueues(State{}, queues(s, now)), now, r.woken)
		}
		s = State{}
	case Debit:
		c.Receipt = c.Rule.Receipt(r, now, cost)
		if !c.Ban || r.Left == 0 || r.moved {
			s = e.debit(s, *r, now, cost)
		}
	case Credit:
		s = e.credit(s, *r, now, cost)
	case Undo:
		if p, ok := e.(*places); ok && c.Waiter != nil {
			s = p.leave(s, now, c.Waiter.Queue, r.woken)
			break
		}
		s = e.undo(s, *r, now, cost, c.Receipt)
	case Renew:
		s, found = e.(*places).renew(s, now, c.Receipt)
	default:
		panic(fmt.Sprintf("weir: %d is no op of Adjust", c.Op))
	}
	woken := r.woken
	*r = c.Read(s, now)
	r.woken, c.Verdict.Found = woken, found
	return s
}

// Answer sets the Verdict from r, and wakes the callers of this process that Commit or Apply has found places for. A
// Store calls it once, when the State has been stored. For a Spend or Peek, r is the Reading of Commit, and admitted
// its argument. For the ops of Adjust, r is the Reading that Apply has set, and Found remains.
func (c *Charge) Answer(r *Reading, admitted bool) {
	v, found := &c.Verdict, c.Verdict.Found
	cost, maxDelay := c.asked()
	c.Rule.verdict(v, r, cost, maxDelay, admitted && c.Op == Spend)
	if !c.Op.Asks() {
		v.Allowed, v.RetryAfter, v.Soft, v.Found, v.Done = true, 0, false, found, true
	}
	if r.woken != nil {
		for _, queue := range *r.woken {
			waiters.Wake(queue)
		}
		r.woken = nil
	}
}

// remain sets Remaining and Soft. left is the number of events that remain of the limit, without
// the extra events of a soft limit. It is negative if extra events are in use.
func (v *Verdict) remain(left, cost int64, spent bool) {
	v.Remaining = int(max(0, left))
	v.Soft = v.Allowed && (left < 0 || !spent && left < cost)
}

// deny sets RetryAfter and Window, if v does not allow cost: to retry, in microseconds, unless cost is above capacity.
func (v *Verdict) deny(cost, capacity, retry int64) {
	switch {
	case v.Allowed:
	case cost > capacity:
		v.RetryAfter = Never
	default:
		v.RetryAfter, v.Window = duration(retry), duration(retry)
	}
}

func duration(microseconds int64) time.Duration {
	return time.Duration(microseconds) * time.Microsecond
}

// Reduce sets the Cost of charges, those of a Take with AtMost, to the largest cost, up to their Cost,
// that the charges of all enforced rules admit, or to 1 if there is none. read returns the Reading of
// the i-th charge, for any cost.
//
// The decision is then that about the reduced Cost. If it differs from the cost that a Reading was made
// for, the Store must call [Charge.Read] again, because Retry depends on the cost.
func Reduce(charges []Charge, read func(i int) Reading) {
	cost := int64(charges[0].Cost)
	for i := range charges {
		if c := &charges[i]; !c.Rule.Shadow {
			r := read(i)
			cost = min(cost, c.Rule.room(&r))
		}
	}
	for i := range charges {
		charges[i].Cost = int(max(cost, 1))
	}
}
