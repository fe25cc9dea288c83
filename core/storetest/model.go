package storetest

import (
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/algo"
)

// A model is a Store in its simplest form: maps, one clock, the algorithms.
type model struct {
	now     int64
	buckets map[place]algo.Level
	windows map[place]algo.Tally
	logs    map[place]*algo.History
}

type place struct{ key, rule string }

func newModel(now int64) *model {
	return &model{
		now:     now,
		buckets: make(map[place]algo.Level),
		windows: make(map[place]algo.Tally),
		logs:    make(map[place]*algo.History),
	}
}

// take is what Take must do.
func (m *model) take(charges []core.Charge) {
	admitted := true
	for i := range charges {
		if c := &charges[i]; c.Op.Asks() && !c.Rule.IsShadow() && !m.ask(c, false).Allowed {
			admitted = false
		}
	}
	for i := range charges {
		c := &charges[i]
		if !c.Op.Asks() {
			m.tell(c)
			c.Answer(m.ask(c, false), false)
			continue
		}
		fits := admitted && m.ask(c, false).Allowed
		spent := fits && c.Op == core.Spend
		c.Answer(m.ask(c, spent), spent)
		if spent || !fits {
			m.conclude(c, spent)
		}
	}
}

func at(c *core.Charge) place { return place{c.Key, c.Rule.Name()} }

func (m *model) log(c *core.Charge) *algo.History {
	h := m.logs[at(c)]
	if h == nil {
		h = new(algo.History)
		m.logs[at(c)] = h
	}
	return h
}

// ask says what the rule says, if the cost is taken or not.
func (m *model) ask(c *core.Charge, spent bool) algo.Verdict {
	p, cost := c.Rule.Program(), c.Asked()
	switch p.Kind {
	case algo.KindTokenBucket, algo.KindLeakyBucket:
		used, _ := p.Bucket.Used(m.buckets[at(c)], m.now)
		return p.Bucket.Verdict(used, cost, c.Patience(), spent)
	case algo.KindFixedWindow:
		count, _ := p.Window.Used(m.windows[at(c)], m.now)
		return p.Window.Verdict(count, p.Window.Left(m.now), cost, spent)
	}
	return p.Log.Verdict(p.Log.Read(m.log(c), m.now, cost), cost, spent)
}

// conclude takes the cost, or writes back what the clock has left behind.
func (m *model) conclude(c *core.Charge, spent bool) {
	p, cost := c.Rule.Program(), int64(c.Cost)
	switch p.Kind {
	case algo.KindTokenBucket, algo.KindLeakyBucket:
		used, moved := p.Bucket.Used(m.buckets[at(c)], m.now)
		if spent {
			mark(c, m.now, used)
			m.buckets[at(c)] = p.Bucket.Spend(used, m.now, cost)
		} else if moved {
			m.buckets[at(c)] = p.Bucket.At(used, m.now)
		}
	case algo.KindFixedWindow:
		count, moved := p.Window.Used(m.windows[at(c)], m.now)
		if spent {
			mark(c, m.now, algo.Span{})
			m.windows[at(c)] = p.Window.At(count+cost, m.now)
		} else if moved {
			m.windows[at(c)] = p.Window.At(count, m.now)
		}
	default:
		if spent {
			mark(c, m.now, algo.Span{})
			p.Log.Spend(m.log(c), m.now, cost)
		} else if p.Log.Moved(m.log(c), m.now) {
			p.Log.Trim(m.log(c), m.now)
		}
	}
}

func mark(c *core.Charge, now int64, used algo.Span) {
	if c.Receipt != nil {
		*c.Receipt = core.Receipt{At: now, Used: used}
	}
}

// tell does an op that does not ask.
func (m *model) tell(c *core.Charge) {
	p, cost := c.Rule.Program(), int64(c.Cost)
	switch p.Kind {
	case algo.KindTokenBucket, algo.KindLeakyBucket:
		used, _ := p.Bucket.Used(m.buckets[at(c)], m.now)
		switch c.Op {
		case core.Reset:
			m.buckets[at(c)] = algo.Level{}
		case core.Credit:
			m.buckets[at(c)] = p.Bucket.Credit(used, m.now, cost)
		case core.Debit:
			mark(c, m.now, used)
			m.buckets[at(c)] = p.Bucket.Debit(used, m.now, cost)
		case core.Undo:
			if l, ok := p.Bucket.Undo(used, m.now, cost, *c.Receipt); ok {
				m.buckets[at(c)] = l
			}
		}
	case algo.KindFixedWindow:
		count, _ := p.Window.Used(m.windows[at(c)], m.now)
		switch c.Op {
		case core.Reset:
			m.windows[at(c)] = algo.Tally{}
		case core.Credit:
			m.windows[at(c)] = p.Window.At(count-cost, m.now)
		case core.Debit:
			mark(c, m.now, algo.Span{})
			m.windows[at(c)] = p.Window.At(p.Window.Debit(count, cost), m.now)
		case core.Undo:
			if count, ok := p.Window.Undo(count, m.now, cost, *c.Receipt); ok {
				m.windows[at(c)] = p.Window.At(count, m.now)
			}
		}
	default:
		switch c.Op {
		case core.Reset:
			delete(m.logs, at(c))
		case core.Credit:
			p.Log.Credit(m.log(c), m.now, cost)
		case core.Debit:
			mark(c, m.now, algo.Span{})
			p.Log.Debit(m.log(c), m.now, cost)
		case core.Undo:
			p.Log.Undo(m.log(c), m.now, cost, *c.Receipt)
		}
	}
}
