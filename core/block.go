package core

import (
	"context"
	"slices"

	"github.com/weir-go/weir/core/driver"
)

// addBlock adds the charge of the pause of rule, that of the line with an index, which has a charge. See Spec.BlockFor.
func (e *event) addBlock(line int, rule Rule) {
	m := e.spill
	l := &m.lines[line]
	block := m.charges[l.charge]
	block.Rule, block.Block, block.MaxDelay, block.Waiter = rule.d.block, true, 0, nil
	at := meeting(m.charges, &block)
	if at < 0 {
		at, m.charges = len(m.charges), append(m.charges, block)
	} else {
		join(&m.charges[at], &block)
	}
	l.block, e.blocks = int16(at), true
}

// isBlockOf reports whether r has the name of the pause of rule.
func isBlockOf(r, rule Rule) bool { return rule.d.block != nil && rule.d.block.Name == r.Name() }

// beginBlocks begins the blocks of the rules that deny e, whose decision the Store has made. If the Store fails, there is none.
func (e *event) beginBlocks(ctx context.Context, asks []Ask) {
	lines, charges := e.lines(), e.charges()
	var debits []driver.Charge
	var places []int16 // of their pauses
	for i := range lines {
		l := &lines[i]
		if l.block == noCharge || !l.beginsBlock(&charges[l.charge], &asks[l.ask]) || !charges[l.block].Verdict.Allowed || slices.Contains(places, l.block) {
			continue
		}
		p := &charges[l.block]
		debits = append(debits, driver.Charge{Key: p.Key, Rule: p.Rule, Op: driver.Debit, Cost: 1, Pause: l.rule.d.spec.BlockFor, Block: true})
		places = append(places, l.block)
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

// beginsBlock reports whether the denial of c, the charge of l and a, begins a block.
func (l *line) beginsBlock(c *driver.Charge, a *Ask) bool {
	v := &c.Verdict
	of := l.rule.d
	if v.Allowed || v.RetryAfter == driver.Never || c.Rule.Headroom > 0 || of.elastic != nil || of.partial || v.Rule != nil && v.Rule != c.Rule {
		return false
	}
	return c.Op == driver.Spend && a.attempt == 0 || a.attempt == unlessDenied
}

// blockedVerdict returns v, that of a rule, while block closes its key.
func blockedVerdict(v, block *driver.Verdict) *driver.Verdict {
	closed := *v
	closed.Allowed, closed.Unknown, closed.Soft, closed.Remaining, closed.Delay = false, false, false, 0, 0
	closed.RetryAfter = max(v.RetryAfter, block.RetryAfter)
	closed.ResetAfter = max(v.ResetAfter, closed.RetryAfter)
	closed.Window = closed.RetryAfter
	return &closed
}
