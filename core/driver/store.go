package driver

import (
	"context"
	"time"
)

// A Store keeps States and applies charges to them. It must be safe for concurrent use, and must
// decide by its own clock. Its dynamic type must be comparable, as a pointer is.
//
// The caller (package core, or a store over this store) must pass 1 to 128 charges, and no two
// charges with the same key and [Compiled.ID]. (Charges of one key may have rules of one name with
// different lengths.) Keys must not be empty, costs must be at least 1, and delays must not be
// negative. Each op must belong to the method, and ctx must not have ended. The Receipts of Spends and
// Debits must be zero. A charge of an in-flight rule is no Debit or Credit, and without ByCost it has a cost of 1 and no
// AtMost.
//
// If AtMost is set in one charge of a Take, all charges are Spends with AtMost, the same key, the same
// Cost and no MaxDelay. Take then reduces the Cost of all of them to the largest cost that fits, or to 1
// if none does, and decides about that cost: see [Reduce].
//
// A Store answers a charge ([Charge.Answer]) when the new State has been stored, and once, however often it had to
// repeat: that wakes the callers who have got places.
//
// A Store must not keep charges or its elements after it has returned. A Store that passes copies of
// charges to another Store must copy their Receipts and, with AtMost, their Costs back, not only their
// Verdicts, and those of an Adjust after an error, too.
type Store interface {
	// Take applies every Spend or none, and sets all Verdicts. The decision is denied if the charge
	// of an enforced rule does not fit. Nothing is charged then, and the Verdicts describe the
	// unchanged States. A shadow rule is charged if the decision is admitted and the charge fits.
	//
	// A denial is not an error. An error means that the Store could not decide: an [ErrUnavailable], the
	// error of ctx, or an [ErrInvalidCharge]. The Verdicts, the Receipts, and the Costs with AtMost, are then
	// undefined, and the charges have been applied at most once: either all of them, or none.
	Take(ctx context.Context, charges []Charge) error

	// Adjust applies every Debit, Credit, Undo, Renew and Reset, none of which can be denied, and sets all
	// Verdicts. After an error, any number of them may have been applied, each at most once. A Verdict that is
	// Done is then that of a charge that was; the other Verdicts, and their Receipts, are undefined. Before the call, no
	// Verdict is Done.
	Adjust(ctx context.Context, charges []Charge) error
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

// A Description contains facts about a Store that do not change, so that a caller adapts to it. A Store
// tells them with a method
//
//	Describe() Description
//
// which a Store without any of these facts does not need. A Store over another one must have it: it returns
// the Description of the Store behind, of which it changes the facts that are not true of itself, with Behind.
// A Store over several has a fact only if all of them have it, and the Clock of the one that decides usually.
type Description struct {
	// Local says that the States are in this process only. Package core then renews no places of in-flight
	// rules: it takes them with the field Lasting of their rules, and frees them when their holders end.
	Local bool
	// Steady says that the clock of the Store never steps back, except for quotas. Receipts that it wrote
	// then need no Age.
	Steady bool
	// Deadline is the longest time that a call of Take or Adjust lasts, if the calls end by themselves.
	// Package failover sets no timeout for them. Zero means that it is not known.
	Deadline time.Duration
	// Clock returns the time of a Store that does not decide by the clock of a server or of this process.
	// Package core chooses the periods of a [Quota] by it. Nil means time.Now.
	Clock func() time.Time
	// Processes returns the number of processes that have the rule of a name on the Store, or 0 if it is not known yet.
	// Package failover divides limits by it in an outage. Nil means that the Store does not count.
	Processes func(rule string) int
	// Off reports whether the limits of the rule of a name are turned off now. Package core then admits events without a
	// call of the Store, as if the limit were core.Unlimited, unless it is Blocked or the rule is a pause. It asks for each
	// rule of each decision. Nil means that none is ever off.
	Off func(rule string) bool
	// Behind are the Stores behind, for figures and logs, by their roles: "primary" and "backup", or "" for the
	// only one. There are none behind most Stores.
	Behind map[string]Store
}

// Describe returns the Description of s: the zero Description if it has no method Describe.
func Describe(s Store) (d Description) {
	if of, ok := s.(interface{ Describe() Description }); ok {
		d = of.Describe()
	}
	return d
}
