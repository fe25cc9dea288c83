package driver

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"
)

// A Store keeps States and applies charges to them. It is safe for concurrent use, and decides by
// its own clock. Its dynamic type must be comparable, as a pointer is.
//
// The caller, package core or a store over this one, guarantees: there is at least one charge; no
// two charges of a call have the same key and rule; costs are at least 1; the ops are those of the
// method; an Undo has a Receipt; keys are not empty; delays are not negative; and ctx has not ended
// yet. A Store must not keep charges or its elements after it has returned.
type Store interface {
	// Take applies every Spend or none, and always fills in all Verdicts. The decision is denied if
	// the charge of an enforced rule does not fit. The Verdicts of a denied decision describe the
	// unchanged keys. A shadow rule is charged if the decision is admitted and the charge fits.
	//
	// A denial is not an error. An error means that the Store could not decide. The Verdicts are
	// then undefined, and all charges or none were applied, but not twice.
	Take(ctx context.Context, charges []Charge) error

	// Adjust applies every Debit, Credit, Undo and Reset, none of which can be denied, and fills in
	// the Verdicts. After an error, some or all of them may have been applied, but not twice.
	Adjust(ctx context.Context, charges []Charge) error
}

// A Declarer is a Store that remembers its rules. [github.com/weir-go/weir/core.New] declares the
// rules of a Limiter; a Store over another Store passes the call on.
type Declarer interface {
	// Declare remembers all rules, or none and returns an error if it cannot serve them.
	Declare(rules ...*Compiled) error
}

// A Namespace remembers the definition of every rule name, so that two rules do not share a State
// by accident. Embed it in a Store to make that a [Declarer]. The zero Namespace is ready to use;
// it is safe for concurrent use.
type Namespace struct {
	mu    sync.Mutex
	rules map[string]*Compiled
}

// Declare remembers all rules. If the name of one belongs to another definition, it remembers none
// and returns an [ErrRuleConflict]. Declaring a rule again is not a conflict.
func (n *Namespace) Declare(rules ...*Compiled) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	added := make(map[string]*Compiled, len(rules))
	for _, r := range rules {
		known, ok := n.rules[r.Name()]
		if !ok {
			known, ok = added[r.Name()]
		}
		if ok && !known.definition.Equal(r.definition) {
			return &RuleError{
				Rule: r.Name(), Field: "name", Category: ErrRuleConflict,
				Reason: fmt.Sprintf("is taken on this store by another rule: %s, and now %s", known, r),
			}
		}
		added[r.Name()] = r
	}
	if n.rules == nil {
		n.rules = added
	}
	maps.Copy(n.rules, added)
	return nil
}

// A Prober is a Store that can report whether it would accept a write; other stores are probed by a
// Peek. Package failover probes a primary during an outage, and returns to it when the probe
// succeeds. A Store implements Prober if it can answer reads while it cannot accept writes, as a
// replica and a full server do. A Store over another Store implements it with the function [Probe].
type Prober interface {
	// Probe returns nil if the Store could now decide a Spend for the keys and rules of charges,
	// and write the result. The errors are those of Take. The charges are Peeks; Probe changes no
	// State of their rules, and leaves their Verdicts undefined. Probe is safe for concurrent use.
	Probe(ctx context.Context, charges []Charge) error
}

// Probe returns nil if s would accept a write for the keys and rules of charges, which must be
// Peeks. It calls Probe if s is a [Prober], and Take otherwise.
func Probe(ctx context.Context, s Store, charges []Charge) error {
	if p, ok := s.(Prober); ok {
		return p.Probe(ctx, charges)
	}
	return s.Take(ctx, charges)
}

// A Deadliner is a Store whose calls end by themselves, so that package failover sets no timeout.
type Deadliner interface {
	// Deadline returns the longest time that a call of Take or Adjust lasts.
	Deadline() time.Duration
}
