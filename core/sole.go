package core

import (
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A sole holds the decision and the charge of a Reservation about one ask of a limiter with one
// rule. Nearly all reservations are of this kind. A sole is part of the Reservation, and takes a
// quarter of the memory of a ledger: it holds each value once.
type sole struct {
	limiter *shared // nil without a decision
	key     string
	cost    int // zero for a Peek
	receipt driver.Receipt
	since   time.Duration // as in part

	// The State. The Store has applied its rule.
	rule                   Rule
	remaining              int
	wait                   time.Duration // RetryAfter or Delay, of which one is zero
	resetAfter, window     time.Duration
	allowed, soft, unknown bool
}

// isSole reports whether a sole can hold b, a batch about that number of asks.
func (b *batch) isSole(asks int) bool {
	if asks != 1 || len(b.rules) != 1 || len(b.charges) == 0 {
		return asks == 1 && len(b.rules) == 1
	}
	c, v := b.rules[0].d.compiled, &b.charges[0].Verdict
	return b.charges[0].Rule == c && (v.Rule == nil || v.Rule == c) && (v.RetryAfter == 0 || v.Delay == 0)
}

// keep stores the charge of a in s after the Store has applied it, if it was allowed. The receipt is
// in s already.
func (s *sole) keep(a *Ask, allowed bool) {
	s.limiter, s.key = a.Limiter.shared, a.Key
	if !a.Peek {
		s.cost = max(a.Cost, 1)
	}
	if allowed {
		s.since = sinceStart()
	}
}

// setState stores rule and v, a verdict of rule, in s.
func (s *sole) setState(rule Rule, v *driver.Verdict) {
	s.rule, s.remaining, s.wait = rule, v.Remaining, max(v.RetryAfter, v.Delay)
	s.resetAfter, s.window = v.ResetAfter, v.Window
	s.allowed, s.soft, s.unknown = v.Allowed, v.Soft, v.Unknown
}

// decision returns the decision, or the zero Decision if there is none.
func (s *sole) decision() (d Decision) {
	if s.limiter == nil {
		return d
	}
	v := &d.first
	v.Remaining, v.ResetAfter, v.Window = s.remaining, s.resetAfter, s.window
	if v.Allowed, v.Soft, v.Unknown = s.allowed, s.soft, s.unknown; s.allowed {
		v.Delay = s.wait
	} else {
		v.RetryAfter = s.wait
	}
	d.rule, d.n = s.rule, 1
	switch {
	case s.rule.IsShadow():
		d.Allowed = true
	case s.allowed && !s.unknown:
		d.Allowed, d.Delay = true, v.Delay
	default:
		d.RetryAfter = v.RetryAfter
	}
	return d
}

// The method ledger returns a ledger with the decision and the charge of s.
func (s *sole) ledger() *ledger {
	l := newLedger(s.limiter.store, 0)
	l.decision, l.asks = s.decision(), append(l.asks, reserved{s.limiter, s.cost})
	rule := s.rule.d.compiled
	if rule == nil || !l.decision.Allowed { // a limit that is never charged, or a denial
		return l
	}
	c := ruleCharges{key: s.key, rule: rule, uncounted: !s.allowed}
	if s.cost > 0 && s.allowed {
		c.add(part{cost: s.cost, receipt: s.receipt, rule: rule, applied: rule, since: s.since})
	}
	l.rules = append(l.rules, c)
	return l
}
