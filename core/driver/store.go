package driver

import (
	"context"
	"time"
)

// A Store keeps the States of rules, and is all that a backend implements. It is safe for
// concurrent use, and decides by its own clock. Its dynamic type must be comparable, as a pointer
// is.
//
// Package core makes the charges, and sees to it that they are valid: there is at least one; no two
// of a call are about the same key and rule; costs are at least 1; the ops are those of the method;
// an Undo has a Receipt; keys are not empty; delays are not negative; and ctx has not ended yet. A
// store over other stores keeps to that, too. The charges belong to the caller: a Store does not
// keep the slice or its elements after it has returned.
type Store interface {
	// Take does every Spend or none, and fills in all Verdicts either way: of a decision that is
	// denied, they say what is left with nothing taken. It is denied if a charge does not fit whose
	// rule is no shadow. A charge of a shadow rule is taken if the decision is admitted and the
	// charge fits.
	//
	// A denial is not an error. An error says that the Store could not decide; then the Verdicts
	// mean nothing, and all charges or none were taken, once.
	Take(ctx context.Context, charges []Charge) error

	// Adjust does every Debit, Credit, Undo and Reset, none of which can be denied, and fills in
	// the Verdicts. An error says that it may have been done, in part or as a whole, once.
	Adjust(ctx context.Context, charges []Charge) error
}

// A Declarer is a Store that remembers which rules it serves. A Limiter declares its rules when it
// is made; a Store over another Store passes the call on.
type Declarer interface {
	// Declare remembers all rules, or none and returns why it cannot serve them.
	Declare(rules ...*Compiled) error
}

// A Prober is a Store that can be asked whether it would accept a write; other stores are probed by
// a Peek. Package failover probes a Store that it has left, and returns to it when the probe
// succeeds. A Store implements Prober if it can answer reads while it refuses writes, as a replica
// and a full server do. A Store over another Store implements Prober by a call of the function
// [Probe].
type Prober interface {
	// Probe returns nil if the Store would now decide a Spend for the keys and rules of charges and
	// could write the result. The errors are those of Take. The charges are Peeks; Probe changes no
	// State of their rules, and leaves their Verdicts undefined. Probe is safe for concurrent use.
	Probe(ctx context.Context, charges []Charge) error
}

// Probe asks s whether it would accept a write, about the keys and rules of charges, which are
// Peeks: by Probe if s is a [Prober], and by Take otherwise.
func Probe(ctx context.Context, s Store, charges []Charge) error {
	if p, ok := s.(Prober); ok {
		return p.Probe(ctx, charges)
	}
	return s.Take(ctx, charges)
}

// A Deadliner is a Store whose calls end by themselves. Package failover calls it without a timeout
// of its own.
type Deadliner interface {
	// Deadline is the longest that a call of Take or Adjust lasts.
	Deadline() time.Duration
}
