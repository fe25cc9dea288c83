package core

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/core/internal/algo"
)

// A Store keeps the state of rules, and is all that a backend implements.
//
// Take takes every Charge or none, and fills in the State of each either way:
// of a decision that was denied, the states say what is left with nothing
// taken. A charge of a [Rule.Shadow] does not count: the others decide, and it is
// taken if they are and if it fits. A denial is not an error; the error is for a store that could not
// decide, and then the states mean nothing. It is safe for concurrent use.
//
// A Store decides by its own clock. Within one Take no two charges name the
// same key and rule, no cost is below 1, ops that ask ([Op.Asks]) and others are not
// mixed, and every rule came through [New]; [CheckCharges] is there to refuse the rest. The charges belong to the caller:
// a Store does not keep the slice or its elements after Take returned. The
// dynamic type of a Store must be comparable, as a pointer is.
type Store interface {
	Take(ctx context.Context, charges []Charge) error
}

// A Prober is a Store that can be asked whether it would accept a write; other
// stores are probed by a peek. Package failover probes a Store that it has left, and
// returns to it when the probe succeeds. A Store implements Prober if it can answer
// reads while it refuses writes, as a replica and a full server do. A Store over
// another Store implements Prober by a call of the function [Probe].
type Prober interface {
	// Probe returns nil if the Store would now decide a Spend for the keys and rules of
	// charges and could write the result. The errors are those of Take. The charges are
	// Peeks; Probe changes no state of their rules, and leaves their State undefined.
	// Probe is safe for concurrent use.
	Probe(ctx context.Context, charges []Charge) error
}

// Probe asks s whether it would accept a write, about the keys and rules of charges,
// which are Peeks: by Probe if s is a [Prober], and by Take otherwise.
func Probe(ctx context.Context, s Store, charges []Charge) error {
	if p, ok := s.(Prober); ok {
		return p.Probe(ctx, charges)
	}
	return s.Take(ctx, charges)
}

// An Op is what is done to a rule's state.
type Op uint8

const (
	// Spend takes Cost if all charges of the call fit. It is the zero Op.
	Spend Op = iota
	// Peek says what Spend would say and takes nothing. A Peek that does not fit
	// denies the decision like a Spend.
	Peek
	// Reset forgets the state; State is then that of an untouched key. It always fits.
	Reset
	// Credit gives back Cost, or as much of it as is used now. It always fits, and
	// State is what is left after it.
	Credit
	// Debit takes Cost whether it fits or not, into debt if need be. A bucket
	// takes all of it, and pays its debt back at its rate; windows and logs count it
	// until they forget. State is what is left after it.
	Debit
	// Undo gives back Cost of the Spend or Debit that wrote the Receipt, or
	// as much of it as still counts. It always fits, and State is what is left
	// after it.
	Undo
)

// Asks says whether op asks for a decision. The others tell the store something,
// and cannot be denied.
func (op Op) Asks() bool { return op <= Peek }

// A Charge is one Rule of one key, and what to do to it.
type Charge struct {
	Key  string // any bytes
	Rule Rule
	Op   Op
	Cost int // at least 1; ignored by Reset

	// MaxDelay denies a Spend or Peek that a leaky bucket would hold for longer,
	// in whole microseconds; zero is no bound.
	MaxDelay time.Duration
	// Receipt, if it is not nil, is written by a Spend or Debit that takes something, and
	// read by an Undo.
	Receipt *Receipt

	State State // the answer
}

// A Receipt tells an Undo when a charge was made and, for a bucket, how much was in use
// before it. The zero Receipt undoes nothing.
type Receipt = algo.Receipt

// Asked is the cost that a verdict is about: that of the charge, or, after an op
// that does not ask, that of one event. It serves the stores of this module.
func (c *Charge) Asked() int64 {
	if c.Op.Asks() {
		return int64(c.Cost)
	}
	return 1
}

// Patience is how long the event may be held, in microseconds. It serves the
// stores of this module.
func (c *Charge) Patience() int64 {
	if c.MaxDelay == 0 || !c.Op.Asks() {
		return algo.Never
	}
	return int64(c.MaxDelay / time.Microsecond)
}

// Answer fills in the State from the verdict of an algorithm about [Charge.Asked];
// spent tells whether that was taken. It serves the stores of this module.
func (c *Charge) Answer(v algo.Verdict, spent bool) {
	if p := &c.Rule.d.program; p.Extra != 0 {
		p.Soften(&v, c.Asked(), spent)
	}
	s := &c.State
	s.Rule = c.Rule
	s.Allowed = v.Allowed
	s.Remaining = int(v.Remaining)
	s.RetryAfter = algo.Duration(v.Retry)
	s.ResetAfter = algo.Duration(v.Reset)
	s.Window = algo.Duration(v.Window)
	s.Delay = algo.Duration(v.Delay)
	s.Soft = v.Soft
	if !c.Op.Asks() {
		s.Allowed, s.RetryAfter, s.Soft = true, 0, false
	}
}

// meets says whether c and o are about one rule of one key.
func (c *Charge) meets(o *Charge) bool { return c.Rule.d.id == o.Rule.d.id && c.Key == o.Key }

// CheckCharges returns an [ErrInvalidCharge] if charges break the contract of
// [Store].
func CheckCharges(charges []Charge) error {
	for i := range charges {
		c := &charges[i]
		switch {
		case c.Rule.d == nil:
			return fmt.Errorf("%w: charge %d has no rule", ErrInvalidCharge, i)
		case c.Rule.d.err != nil:
			return fmt.Errorf("%w: %w", ErrInvalidCharge, c.Rule.d.err)
		case c.Cost < 1 && c.Op != Reset:
			return fmt.Errorf("%w: charge %d costs %d", ErrInvalidCharge, i, c.Cost)
		case c.Op.Asks() != charges[0].Op.Asks():
			return fmt.Errorf("%w: charges 0 and %d ask and tell in one decision", ErrInvalidCharge, i)
		case c.Op > Undo:
			return fmt.Errorf("%w: charge %d has an unknown op", ErrInvalidCharge, i)
		case c.Op == Undo && c.Receipt == nil:
			return fmt.Errorf("%w: charge %d undoes nothing: it has no Receipt", ErrInvalidCharge, i)
		case c.MaxDelay < 0:
			return fmt.Errorf("%w: charge %d has a negative delay", ErrInvalidCharge, i)
		}
		for j := range charges[:i] {
			if charges[j].meets(c) {
				return fmt.Errorf("%w: charges %d and %d name the same key and rule", ErrInvalidCharge, j, i)
			}
		}
	}
	return nil
}

// A Declarer is a Store that remembers which rules it serves. [New] declares
// the rules of a Limiter; a Store that wraps another passes the call on.
type Declarer interface {
	Declare(rules ...Rule) error
}

// A Namespace remembers the definition behind every rule name, so that two
// rules do not share state by accident. Embed it in a Store to make that a
// [Declarer]. The zero Namespace is ready; it is safe for concurrent use.
type Namespace struct {
	mu    sync.Mutex
	rules map[string]Rule
}

// Declare remembers all rules, or none and returns an [ErrRuleConflict] if one
// of the names is already taken by another definition. Declaring a rule again
// is not a conflict.
func (n *Namespace) Declare(rules ...Rule) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range rules {
		r := rules[i]
		if known, ok := n.rules[r.Name()]; ok && !known.def().same(r.def()) {
			return &RuleError{
				Rule: r.Name(), Field: "name", category: ErrRuleConflict,
				Reason: fmt.Sprintf("is taken on this store by another rule: %s, and now %s", known.String(), r),
			}
		}
	}
	if n.rules == nil {
		n.rules = make(map[string]Rule)
	}
	for _, r := range rules {
		n.rules[r.Name()] = r
	}
	return nil
}
