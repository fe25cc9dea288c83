package failover_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/failover"
	"github.com/weir-go/weir/core/internal/algo"
	"github.com/weir-go/weir/core/storetest"
)

func TestConformance(t *testing.T) {
	t.Run("primary guarded", conformance(func(_ *testing.T, c *clocked) core.Store { return c }))
	t.Run("primary direct", conformance(func(_ *testing.T, c *clocked) core.Store { return &prompt{c} }))
	t.Run("backup", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) *storetest.Harness {
			c := newClocked()
			return &storetest.Harness{Store: unsigned{away(t, c)}, Now: c.now, Advance: c.advance}
		})
	})
	// A failover Store as the primary of another.
	t.Run("nested", conformance(func(t *testing.T, c *clocked) core.Store { return &prompt{unsigned{away(t, c)}} }))
}

// away is a Store that has left its primary for good.
func away(t *testing.T, backup core.Store) *failover.Store {
	s := failover.New(absent{}, backup)
	t.Cleanup(func() { s.Close() })
	rule := core.TokenBucket("until", core.PerSecond(1))
	for s.State() != failover.Backup {
		if err := s.Take(t.Context(), []core.Charge{{Key: "until", Rule: &rule, Op: core.Peek, Cost: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func conformance(under func(*testing.T, *clocked) core.Store) func(t *testing.T) {
	return func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) *storetest.Harness {
			c := newClocked()
			s := failover.New(under(t, c), failover.Closed, failover.Deadline(time.Minute))
			t.Cleanup(func() { s.Close() })
			return &storetest.Harness{Store: s, Now: c.now, Advance: c.advance}
		})
	}
}

// An unsigned store is one that is always on its backup, for the suite, which
// compares marks with those of a store that is not made of others.
type unsigned struct{ *failover.Store }

func (u unsigned) Take(ctx context.Context, charges []core.Charge) error {
	defer u.origin(charges, 0)
	for i := range charges {
		if charges[i].Op == core.Undo {
			u.origin(charges[i:i+1], 1)
		}
	}
	return u.Store.Take(ctx, charges)
}

func (unsigned) origin(charges []core.Charge, o int) {
	for i := range charges {
		if m := charges[i].Mark; m != nil {
			m.Origin = o
		}
	}
}

// A clocked store has a clock that stands still, one lock, and maps.
type clocked struct {
	core.Namespace

	mu      sync.Mutex
	us      int64
	buckets map[place]algo.Level
	windows map[place]algo.Tally
	logs    map[place]*algo.History
}

type place struct {
	key  string
	rule uint64
}

func newClocked() *clocked {
	return &clocked{
		us:      time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(),
		buckets: map[place]algo.Level{}, windows: map[place]algo.Tally{}, logs: map[place]*algo.History{},
	}
}

func (s *clocked) now() time.Time          { return time.UnixMicro(s.us) }
func (s *clocked) advance(d time.Duration) { s.us += d.Microseconds() }

func (s *clocked) Take(ctx context.Context, charges []core.Charge) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := core.CheckCharges(charges); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	admitted := true
	entries := make([]entry, len(charges))
	for i := range charges {
		entries[i] = s.entry(&charges[i])
		fits := entries[i].verdict(false).Allowed
		admitted = admitted && (fits || charges[i].Rule.IsShadow())
	}
	for i := range charges {
		c, e := &charges[i], entries[i]
		spent := c.Op == core.Spend && admitted && e.verdict(false).Allowed
		switch {
		case spent:
			e.mark()
			e.settle()
		case c.Op == core.Spend:
			e.writeBack()
		case c.Op == core.Settle:
			e.mark()
			e.settle()
		case c.Op == core.Reset:
			delete(s.buckets, e.at)
			delete(s.windows, e.at)
			delete(s.logs, e.at)
		case !c.Op.Asks():
			e.giveBack()
		}
		if !c.Op.Asks() {
			e = s.entry(c)
		}
		c.Answer(e.verdict(spent), spent)
	}
	return nil
}

// An entry is the state of one charge, read.
type entry struct {
	s     *clocked
	c     *core.Charge
	p     *algo.Program
	at    place
	used  algo.Span
	count int64
	log   *algo.History
	moved bool
	read  algo.Reading
}

func (s *clocked) entry(c *core.Charge) entry {
	e := entry{s: s, c: c, p: c.Rule.Program(), at: place{c.Key, c.Rule.ID()}}
	switch e.p.Kind {
	case algo.KindTokenBucket, algo.KindLeakyBucket:
		e.used, e.moved = e.p.Bucket.Used(s.buckets[e.at], s.us)
	case algo.KindFixedWindow:
		e.count, e.moved = e.p.Window.Used(s.windows[e.at], s.us)
	default:
		if e.log = s.logs[e.at]; e.log == nil {
			e.log = new(algo.History)
		}
		e.moved = e.p.Log.Moved(e.log, s.us)
		e.read = e.p.Log.Read(e.log, s.us, c.Asked())
	}
	return e
}

func (e entry) verdict(spent bool) algo.Verdict {
	switch e.p.Kind {
	case algo.KindTokenBucket, algo.KindLeakyBucket:
		return e.p.Bucket.Verdict(e.used, e.c.Asked(), e.c.Patience(), spent)
	case algo.KindFixedWindow:
		return e.p.Window.Verdict(e.count, e.p.Window.Left(e.s.us), e.c.Asked(), spent)
	}
	return e.p.Log.Verdict(e.read, e.c.Asked(), spent)
}

func (e entry) mark() {
	if e.c.Mark != nil {
		*e.c.Mark = core.Mark{At: e.s.us, Used: e.used}
	}
}

func (e entry) settle() {
	switch cost := int64(e.c.Cost); e.p.Kind {
	case algo.KindTokenBucket, algo.KindLeakyBucket:
		e.s.buckets[e.at] = e.p.Bucket.Settle(e.used, e.s.us, cost)
	case algo.KindFixedWindow:
		e.s.windows[e.at] = e.p.Window.At(e.p.Window.Settle(e.count, cost), e.s.us)
	default:
		e.p.Log.Settle(e.log, e.s.us, cost)
		e.s.logs[e.at] = e.log
	}
}

func (e entry) writeBack() {
	if !e.moved {
		return
	}
	switch e.p.Kind {
	case algo.KindTokenBucket, algo.KindLeakyBucket:
		e.s.buckets[e.at] = e.p.Bucket.At(e.used, e.s.us)
	case algo.KindFixedWindow:
		e.s.windows[e.at] = e.p.Window.At(e.count, e.s.us)
	default:
		e.p.Log.Trim(e.log, e.s.us)
	}
}

func (e entry) giveBack() {
	undo := e.c.Op == core.Undo
	switch cost := int64(e.c.Cost); e.p.Kind {
	case algo.KindTokenBucket, algo.KindLeakyBucket:
		level, changed := e.p.Bucket.Refund(e.used, e.s.us, cost), true
		if undo {
			level, changed = e.p.Bucket.Undo(e.used, e.s.us, cost, *e.c.Mark)
		}
		if changed {
			e.s.buckets[e.at] = level
		}
	case algo.KindFixedWindow:
		count, changed := max(0, e.count-cost), true
		if undo {
			count, changed = e.p.Window.Undo(e.count, e.s.us, cost, *e.c.Mark)
		}
		if changed {
			e.s.windows[e.at] = e.p.Window.At(count, e.s.us)
		}
	default:
		if undo {
			e.p.Log.Undo(e.log, e.s.us, cost, *e.c.Mark)
		} else {
			e.p.Log.Refund(e.log, e.s.us, cost)
		}
	}
}
