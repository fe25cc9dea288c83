package storetest

import (
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/algo"
)

// A model is a Store in its simplest form: maps, one clock, the algorithms.
type model struct {
	now     int64
	buckets map[place]algo.Span
	logs    map[place]*algo.History
}

type place struct{ key, rule string }

func newModel() *model {
	const somewhen = 1 << 50 // far from zero, which is the state of an idle bucket
	return &model{now: somewhen, buckets: make(map[place]algo.Span), logs: make(map[place]*algo.History)}
}

// take is what Take must do.
func (m *model) take(charges []core.Charge) {
	admitted := true
	for i := range charges {
		if !m.look(&charges[i]).Allowed {
			admitted = false
		}
	}
	for i := range charges {
		c := &charges[i]
		v := m.look(c)
		if c.Op == core.Spend {
			v = m.spend(c, admitted)
		}
		c.Answer(v)
	}
}

func at(c *core.Charge) place { return place{c.Key, c.Rule.Name()} }

func (m *model) history(c *core.Charge) *algo.History {
	h := m.logs[at(c)]
	if h == nil {
		h = new(algo.History)
		m.logs[at(c)] = h
	}
	return h
}

// look is the verdict without any change.
func (m *model) look(c *core.Charge) algo.Verdict {
	p, cost := c.Rule.Program(), int64(c.Cost)
	if p.Kind == algo.KindSlidingLog {
		return p.Log.Verdict(p.Log.Read(m.history(c), m.now, cost), cost, false)
	}
	used, _ := p.Bucket.Used(m.buckets[at(c)], m.now)
	return p.Bucket.Verdict(used, cost, false)
}

// spend takes the cost if the decision admitted it.
func (m *model) spend(c *core.Charge, admitted bool) algo.Verdict {
	p, cost := c.Rule.Program(), int64(c.Cost)
	if p.Kind == algo.KindSlidingLog {
		h := m.history(c)
		reading := p.Log.Read(h, m.now, cost)
		switch {
		case admitted:
			p.Log.Spend(h, m.now, cost)
		case h.Moved(m.now):
			p.Log.Trim(h, m.now)
		}
		return p.Log.Verdict(reading, cost, admitted)
	}
	used, moved := p.Bucket.Used(m.buckets[at(c)], m.now)
	switch {
	case admitted:
		m.buckets[at(c)] = p.Bucket.Spend(used, m.now, cost)
	case moved:
		m.buckets[at(c)] = p.Bucket.At(used, m.now)
	}
	return p.Bucket.Verdict(used, cost, admitted)
}
