package storetest

import (
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/algo"
)

// A model is a Store in its simplest form: maps, one clock, the algorithms.
type model struct {
	now     int64
	buckets map[place]algo.Span
	windows map[place]algo.Tally
	logs    map[place]*algo.History
}

type place struct{ key, rule string }

func newModel(now int64) *model {
	return &model{
		now:     now,
		buckets: make(map[place]algo.Span),
		windows: make(map[place]algo.Tally),
		logs:    make(map[place]*algo.History),
	}
}

// take is what Take must do.
func (m *model) take(charges []core.Charge) {
	admitted := true
	for i := range charges {
		if c := &charges[i]; c.Op != core.Refund && !m.decide(c, look).Allowed {
			admitted = false
		}
	}
	for i := range charges {
		c, what := &charges[i], look
		switch {
		case c.Op == core.Refund:
			what = give
		case c.Op != core.Spend:
		case admitted:
			what = spend
		default:
			what = deny
		}
		c.Answer(m.decide(c, what))
	}
}

// What becomes of a charge.
const (
	look = iota
	spend
	deny
	give
)

// decide does one thing to one charge and says what the rule says.
func (m *model) decide(c *core.Charge, what int) algo.Verdict {
	p, cost, at := c.Rule.Program(), int64(c.Cost), place{c.Key, c.Rule.Name()}
	switch p.Kind {
	case algo.KindTokenBucket, algo.KindLeakyBucket:
		used, moved := p.Bucket.Used(m.buckets[at], m.now)
		if what == give {
			m.buckets[at] = p.Bucket.Refund(used, m.now, cost)
			used, _ = p.Bucket.Used(m.buckets[at], m.now)
			return p.Bucket.Verdict(used, 1, false)
		}
		if what == spend {
			m.buckets[at] = p.Bucket.Spend(used, m.now, cost)
		} else if what == deny && moved {
			m.buckets[at] = p.Bucket.At(used, m.now)
		}
		return p.Bucket.Verdict(used, cost, what == spend)
	case algo.KindFixedWindow:
		count, moved := p.Window.Used(m.windows[at], m.now)
		if what == give {
			count = max(0, count-cost)
			m.windows[at] = p.Window.At(count, m.now)
			return p.Window.Verdict(count, p.Window.Left(m.now), 1, false)
		}
		if what == spend {
			m.windows[at] = p.Window.At(count+cost, m.now)
		} else if what == deny && moved {
			m.windows[at] = p.Window.At(count, m.now)
		}
		return p.Window.Verdict(count, p.Window.Left(m.now), cost, what == spend)
	default:
		h := m.logs[at]
		if h == nil {
			h = new(algo.History)
			m.logs[at] = h
		}
		if what == give {
			p.Log.Refund(h, m.now, cost)
			return p.Log.Verdict(p.Log.Read(h, m.now, 1), 1, false)
		}
		reading := p.Log.Read(h, m.now, cost)
		if what == spend {
			p.Log.Spend(h, m.now, cost)
		} else if what == deny && p.Log.Moved(h, m.now) {
			p.Log.Trim(h, m.now)
		}
		return p.Log.Verdict(reading, cost, what == spend)
	}
}
