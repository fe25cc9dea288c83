package core

import (
	"cmp"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A sole holds the decision and the charge of a Reservation about one ask of a limiter with one rule.
// Nearly all reservations are of this kind. A sole takes less memory than a ledger, and is part of
// the Reservation.
type sole struct {
	limiter *shared // nil without a decision
	state   State
	key     string
	cost    int              // zero for a Peek
	rule    *driver.Compiled // of the charge; nil for a limit that is never charged
	applied *driver.Compiled // as in part
	receipt driver.Receipt
	since   time.Duration // as in part
}

// keep stores the charge of b, a batch about a, in s after the Store has applied it. The receipt is
// in s already.
func (s *sole) keep(b *batch, a *Ask) {
	s.limiter, s.key = a.Limiter.shared, a.Key
	if !a.Peek {
		s.cost = max(a.Cost, 1)
	}
	if len(b.charges) > 0 {
		c := &b.charges[0]
		s.rule, s.applied, s.since = c.Rule, cmp.Or(c.Verdict.Rule, c.Rule), sinceStart()
	}
}

// decision returns the decision, or the zero Decision if there is none.
func (s *sole) decision() Decision {
	if s.limiter == nil {
		return Decision{}
	}
	d := Decision{first: s.state, n: 1}
	switch {
	case s.state.Rule.IsShadow():
		d.Allowed = true
	case s.state.Allowed && !s.state.Unknown:
		d.Allowed, d.Delay = true, s.state.Delay
	default:
		d.RetryAfter = s.state.RetryAfter
	}
	return d
}

// The method ledger returns a ledger with the decision and the charge of s.
func (s *sole) ledger() *ledger {
	l := newLedger(s.limiter.store, 0)
	l.decision, l.asks = s.decision(), append(l.asks, reserved{s.limiter, s.cost})
	if s.rule == nil || !l.decision.Allowed {
		return l
	}
	c := ruleCharges{key: s.key, rule: s.rule, uncounted: !s.state.Allowed}
	if s.cost > 0 && s.state.Allowed {
		c.add(part{cost: s.cost, receipt: s.receipt, rule: s.rule, applied: s.applied, since: s.since})
	}
	l.rules = append(l.rules, c)
	return l
}
