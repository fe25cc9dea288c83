package driver

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"
)

// A Store keeps States and applies charges to them. It must be safe for concurrent use, and must
// decide by its own clock. Its dynamic type must be comparable, as a pointer is.
//
// The caller (package core, or a store over this store) must pass at least one charge, and no two
// charges with the same key and rule. Keys must not be empty, costs must be at least 1, and delays
// must not be negative. Each op must belong to the method, an Undo must have a Receipt, and ctx
// must not have ended. A Store must not keep charges or its elements after it has returned.
type Store interface {
	// Take applies every Spend or none, and sets all Verdicts. The decision is denied if the charge
	// of an enforced rule does not fit. Nothing is charged then, and the Verdicts describe the
	// unchanged States. A shadow rule is charged if the decision is admitted and the charge fits.
	//
	// A denial is not an error. An error means that the Store could not decide. The Verdicts are
	// then undefined, and the charges have been applied at most once: either all of them, or none.
	Take(ctx context.Context, charges []Charge) error

	// Adjust applies every Debit, Credit, Undo and Reset, none of which can be denied, and sets all
	// Verdicts. After an error, any number of them may have been applied, each at most once.
	Adjust(ctx context.Context, charges []Charge) error
}

// A Declarer is a Store that remembers its rules. [github.com/weir-go/weir/core.New] declares the
// rules of a Limiter. A Store over another Store must pass them on with [Declare].
type Declarer interface {
	// Declare remembers all rules. If it cannot serve one, it remembers none and returns an error.
	Declare(rules ...*Compiled) error
}

// Declare calls the method Declare of s if s is a [Declarer]. Otherwise it returns nil.
func Declare(s Store, rules ...*Compiled) error {
	if d, ok := s.(Declarer); ok {
		return d.Declare(rules...)
	}
	return nil
}

// A Namespace remembers the definition of every rule name, so that two rules do not share a State
// by accident. A Store that embeds a Namespace is a [Declarer]. The zero Namespace is ready to use.
// A Namespace is safe for concurrent use.
type Namespace struct {
	mu    sync.Mutex
	rules map[string]*Compiled
}

// Declare remembers all rules. If a name belongs to another definition already, it remembers none
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

// A Prober is a Store that can report whether it would accept a write. Package failover probes a
// primary during an outage, and returns to it when the probe succeeds. Other stores are probed by a
// Peek. A Store must implement Prober if it can serve reads while it cannot accept writes, as a
// replica and a full server do. A Store over a Store must implement Prober with [Probe].
type Prober interface {
	// Probe returns nil if the Store could now decide a Spend for the keys and rules of charges,
	// and write the result. The errors are those of Take. Probe must be safe for concurrent use,
	// and must not change a State of these rules. The charges are Peeks, whose Verdicts may change.
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

// A Deadliner is a Store whose calls end by themselves. Package failover sets no timeout for them.
type Deadliner interface {
	// Deadline returns the longest time that a call of Take or Adjust lasts.
	Deadline() time.Duration
}
