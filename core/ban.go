package core

import (
	"context"
	"slices"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/blockfor"
)

// addBan adds the charge of the pause of rule, that of the line of a with an index, which has a charge. It is a Spend if a
// denial by rule may begin the ban, and a Peek otherwise. See Spec.BlockFor.
func (e *event) addBan(line int, rule Rule, a *Ask) {
	m := e.spill
	l := &m.lines[line]
	ban := m.charges[l.charge]
	if ban.Op.Asks() && !ban.AtMost {
		ban.Op = driver.Peek
		if l.mayBan(&m.charges[l.charge], a) {
			ban.Op = driver.Spend
		}
	}
	ban.Rule, ban.Ban, ban.MaxDelay, ban.Waiter = rule.d.ban, true, 0, nil
	at := meeting(m.charges, &ban)
	if at < 0 {
		at, m.charges = len(m.charges), append(m.charges, ban)
	} else {
		join(&m.charges[at], &ban)
	}
	l.ban, e.bans = int16(at), true
}

// isBan reports whether one of a and b has the name of the pause of the other.
func isBan(a, b Rule) bool {
	s, o := a.def().spec, b.def().spec
	return s.bans() && s.Name+blockfor.Suffix == o.Name || o.bans() && o.Name+blockfor.Suffix == s.Name
}

// beginBans begins the bans of the rules that deny e, whose decision the Store has made. If the Store fails, there is none.
func (e *event) beginBans(ctx context.Context, asks []Ask) {
	lines, charges := e.lines(), e.charges()
	var debits []driver.Charge
	var places []int16 // of their pauses
	for i := range lines {
		l := &lines[i]
		if l.ban == noCharge || !l.bans(&charges[l.charge], &charges[l.ban], &asks[l.ask]) || slices.Contains(places, l.ban) {
			continue
		}
		p := &charges[l.ban]
		debits = append(debits, driver.Charge{Key: p.Key, Rule: p.Rule, Op: driver.Debit, Cost: 1, Pause: l.rule.d.spec.BlockFor, Ban: true})
		places = append(places, l.ban)
	}
	if debits == nil || asks[0].Limiter.store.Adjust(context.WithoutCancel(ctx), debits) != nil {
		return
	}
	for i, place := range places {
		v := &debits[i].Verdict
		v.Allowed, v.RetryAfter = false, v.ResetAfter
		charges[place].Verdict = *v
	}
}

// mayBan reports whether a denial of c, the charge of l and a, may begin a ban.
func (l *line) mayBan(c *driver.Charge, a *Ask) bool {
	if of := l.rule.d; c.Rule.Headroom > 0 || of.elastic != nil || of.partial {
		return false
	}
	return c.Op == driver.Spend && a.attempt == 0 || a.attempt == unlessDenied
}

// bans reports whether the verdict of c, the charge of l and a, begins the ban whose charge is ban. A Store that does not know
// the pause begins none.
func (l *line) bans(c, ban *driver.Charge, a *Ask) bool {
	v := &c.Verdict
	part := v.Rule != nil && v.Rule != c.Rule && v.Rule.Events <= c.Rule.Events // that of a rest has more
	return !part && blockfor.Begins(c) && l.mayBan(c, a) && ban.Op == driver.Spend && ban.Verdict.Allowed && !ban.Verdict.Unknown
}

// bannedVerdict returns v, that of a rule, while ban closes its key.
func bannedVerdict(v, ban *driver.Verdict) *driver.Verdict {
	closed := *v
	closed.Allowed, closed.Unknown, closed.Soft, closed.Remaining, closed.Delay = false, false, false, 0, 0
	closed.RetryAfter = max(v.RetryAfter, ban.RetryAfter)
	closed.ResetAfter = max(v.ResetAfter, closed.RetryAfter)
	closed.Window = closed.RetryAfter
	return &closed
}
