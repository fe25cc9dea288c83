package memstore

import (
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/algo"
)

// tell does an op that asks for no decision, and reads the state anew.
func (st *step) tell(c *core.Charge, now int64) {
	switch c.Op {
	case core.Reset:
		st.forget()
	case core.Debit:
		st.debit(c, now)
	default:
		st.giveBack(c, now)
	}
	st.used, st.count, st.reading = algo.Span{}, 0, algo.Reading{}
	st.read(c, now)
}

// debit takes the cost, whether it fits or not.
func (st *step) debit(c *core.Charge, now int64) {
	if st.shard.spilled {
		st.read(c, now) // another charge of the decision may share the spillway
	}
	st.receipt(c, now)
	switch p, cost := c.Rule.Program(), int64(c.Cost); p.Kind {
	case algo.KindTokenBucket, algo.KindLeakyBucket:
		st.shard.setBucket(st.place, p.Bucket.Debit(st.used, now, cost), &p.Bucket, now)
	case algo.KindFixedWindow:
		st.shard.setWindow(st.place, p.Window.At(p.Window.Debit(st.count, cost), now), &p.Window, now)
	case algo.KindSlidingLog, algo.KindSlidingWindow:
		st.shard.changeLog(st.place, &p.Log, now, func(h *algo.History) { p.Log.Debit(h, now, cost) })
	default:
		panic(p.Kind.Unknown())
	}
}

// giveBack undoes a charge or credits an amount. What was charged to a spillway
// stays there: who else has charged it cannot be told.
func (st *step) giveBack(c *core.Charge, now int64) {
	p, cost, sh := c.Rule.Program(), int64(c.Cost), st.shard
	switch p.Kind {
	case algo.KindTokenBucket, algo.KindLeakyBucket:
		if !sh.owns(st.place) {
			return
		}
		level, changed := p.Bucket.Credit(st.used, now, cost), true
		if c.Op == core.Undo {
			level, changed = p.Bucket.Undo(st.used, now, cost, *c.Receipt)
		}
		if changed {
			sh.setBucket(st.place, level, &p.Bucket, now)
		}
	case algo.KindFixedWindow:
		own := sh.tallies.find(st.place.own)
		if own == nil {
			return
		}
		count, changed := max(0, st.count-cost), true
		if c.Op == core.Undo {
			count, changed = p.Window.Undo(st.count, now, cost, *c.Receipt)
		}
		if changed {
			*own = tally{p.Window.At(count, now), &p.Window}
		}
	case algo.KindSlidingLog, algo.KindSlidingWindow:
		if own := sh.logs.find(st.place.own); own != nil {
			sh.change(st.place, own, now, func(h *algo.History) {
				if c.Op == core.Undo {
					p.Log.Undo(h, now, cost, *c.Receipt)
				} else {
					p.Log.Credit(h, now, cost)
				}
			})
		}
	default:
		panic(p.Kind.Unknown())
	}
}

// forget removes the state. A spillway is shared and stays.
func (st *step) forget() {
	forget(st.shard, &st.shard.cells, st.place.own)
	forget(st.shard, &st.shard.debts, st.place.own)
	forget(st.shard, &st.shard.tallies, st.place.own)
	forget(st.shard, &st.shard.logs, st.place.own)
}
