package lease

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/algo"
)

// A yard is a token bucket, blocks that several processes have of it, and nothing
// between: leases are under way for a while, and what is given back, too.
type yard struct {
	rng     *rand.Rand
	m       *meter
	now     int64 // ns
	level   algo.Level
	cells   []*cell
	pending []func()
	events  []Event
}

var yardRules = []core.Rule{
	core.TokenBucket("r", core.PerSecond(1000).WithBurst(400)),
	core.TokenBucket("r", core.Per(7001, 3*time.Second).WithBurst(900)),
	core.TokenBucket("r", core.Per(131, 40*time.Millisecond)),
	core.TokenBucket("r", core.PerSecond(100).WithBurst(1000)),
}

func newYard(seed uint64) *yard {
	y := &yard{rng: rand.New(rand.NewPCG(seed, 11))}
	rule := yardRules[y.rng.IntN(len(yardRules))]
	for range 2 + y.rng.IntN(2) {
		y.m = newMeter(&rule, time.Millisecond<<y.rng.IntN(11))
		y.cells = append(y.cells, &cell{m: y.m})
	}
	return y
}

func (y *yard) us() int64 { return 1<<50 + y.now/1000 }

func (y *yard) bucket() *algo.Bucket { return &y.m.rule.Program().Bucket }

func (y *yard) free() int64 {
	used, _ := y.bucket().Used(y.level, y.us())
	return y.bucket().Verdict(used, 1, algo.Never, false).Remaining
}

// take takes n tokens from the bucket, which has them.
func (y *yard) take(n int64) core.Mark {
	used, _ := y.bucket().Used(y.level, y.us())
	y.level = y.bucket().Spend(used, y.us(), n)
	return core.Mark{At: y.us(), Used: used}
}

func (y *yard) undo(d debt) {
	used, _ := y.bucket().Used(y.level, y.us())
	if l, ok := y.bucket().Undo(used, y.us(), d.n, d.mark); ok {
		y.level = l
	}
}

func (y *yard) admit(n int64) { y.events = append(y.events, Event{y.us(), n}) }

func (y *yard) step() {
	c := y.cells[y.rng.IntN(len(y.cells))]
	switch y.rng.IntN(12) {
	case 0, 1:
		y.lease(c)
	case 2:
		if debts := c.end(y.now, y.rng.IntN(4) == 0); len(debts) > 0 {
			y.later(func() {
				for _, d := range debts {
					y.undo(d)
				}
			})
		}
	case 3: // a decision that went straight
		if n := 1 + y.rng.Int64N(5); y.free() >= n {
			y.take(n)
			y.admit(n)
		}
	case 4, 5:
		y.now += y.rng.Int64N(1 << (10 + y.rng.IntN(18)))
	case 6:
		if len(y.pending) > 0 {
			y.land(y.rng.IntN(len(y.pending)))
		}
	case 7: // everybody takes what there is
		if y.rng.IntN(4) == 0 {
			y.storm()
		}
	default:
		for range y.rng.IntN(20) {
			y.spend(c, 1+y.rng.Int64N(5))
		}
	}
}

func (y *yard) block(c *cell, mark core.Mark, sent, n int64) block {
	first := c.m.count(mark.Used)
	return block{
		serial: 1 + y.rng.Uint64N(1<<60), at: mark.At, asked: sent, ends: sent + c.m.life, over: forever,
		bottom: first, front: first, limit: first + n*c.m.unit,
	}
}

// lease leases for c, and hands out some of it at once.
func (y *yard) lease(c *cell) {
	n := 1 + y.rng.Int64N(1+y.free()/int64(1+y.rng.IntN(8)))
	if c.flying || y.free() < n {
		return
	}
	c.flying = true
	sent := y.now - y.rng.Int64N(2_000_000)
	mark := y.take(n)
	b := y.block(c, mark, sent, n)
	if fresh := y.rng.Int64N(n + 1); fresh > 0 {
		y.admit(fresh)
		b.front += fresh * c.m.unit
	}
	y.later(func() {
		c.flying = false
		old := c.keep(b, y.now)
		if debts := c.owes(&old, y.now); len(debts) > 0 {
			y.later(func() {
				for _, d := range debts {
					y.undo(d)
				}
			})
		}
	})
}

func (y *yard) spend(c *cell, n int64) bool {
	if c.held(y.now) < n {
		return false
	}
	t := c.spend(y.now, n)
	if y.rng.IntN(8) == 0 { // it was part of a decision that is denied
		if d, owed := c.restore(y.now, n, t); owed {
			y.undo(d)
		}
		return true
	}
	y.admit(n)
	return true
}

func (y *yard) storm() {
	for _, c := range y.cells {
		for y.spend(c, 1) {
		}
	}
	if n := y.free(); n > 0 {
		y.take(n)
		y.admit(n)
	}
}

func (y *yard) later(f func()) {
	y.pending = append(y.pending, f)
	if y.rng.IntN(2) == 0 {
		y.land(len(y.pending) - 1)
	}
}

func (y *yard) land(i int) {
	f := y.pending[i]
	y.pending = slices.Delete(y.pending, i, i+1)
	f()
}

// over is by how many tokens the events are over the limit.
func (y *yard) over() int64 { return Overflow(&y.m.rule, y.events) }

// No span T sees more than Burst + rate x T, whatever is leased, spent, given back and
// lost by whom.
func TestSlots(t *testing.T) {
	for seed := range uint64(10_000) {
		y := newYard(seed)
		for range 600 {
			y.step()
		}
		if over := y.over(); over > 0 {
			t.Fatalf("%v, seed %d: %d tokens over the limit", &y.m.rule, seed, over)
		}
	}
}

// What is given back moves the slots above it. The same schedules would be over the
// limit if that were not heeded.
func TestSlotsMove(t *testing.T) {
	type step struct {
		at   int64 // ms
		cell int
		n    int64 // to lease; zero gives back
	}
	for _, tt := range []struct {
		name    string
		used    int64
		steps   []step
		storm   int64 // ms
		without func(debt) debt
	}{{
		name:    "of a full bucket", // the second lease has the slots from 60 on, and then from 0
		steps:   []step{{0, 0, 60}, {0, 1, 60}, {1, 0, 0}},
		storm:   61,
		without: func(d debt) debt { d.mark.At += 125_000; return d },
	}, {
		name: "again and again", // each is moved to where the first was
		used: 200,
		steps: []step{
			{0, 0, 60}, {70, 1, 60}, {74, 0, 0}, {74, 2, 60}, {130, 1, 0}, {130, 3, 60}, {134, 2, 0},
		},
		storm:   254,
		without: func(d debt) debt { d.mark.Used.Micros += 61_000; return d },
	}} {
		for _, guarded := range []bool{true, false} {
			y := &yard{rng: rand.New(rand.NewPCG(1, 1))}
			rule := core.TokenBucket("r", core.PerSecond(1000))
			y.m = newMeter(&rule, time.Second)
			for range 4 {
				y.cells = append(y.cells, &cell{m: y.m})
			}
			if tt.used > 0 {
				y.take(tt.used)
				y.admit(tt.used)
			}
			for _, st := range tt.steps {
				y.now = st.at * 1e6
				c := y.cells[st.cell]
				if st.n > 0 {
					c.keep(y.block(c, y.take(st.n), y.now, st.n), y.now)
					continue
				}
				b := &c.blocks[1]
				t := b.slots(c.m, max(b.front, b.melted(c.m, y.now)))
				d := t.owed(c.m, "", b.rest(c.m, y.now), b.bottom)
				if !guarded {
					d = tt.without(d)
				}
				y.undo(d)
				*b = block{}
			}
			y.now = tt.storm * 1e6
			y.storm()
			if over := y.over(); over > 0 == guarded {
				t.Errorf("%s, guarded %v: %d tokens over the limit", tt.name, guarded, over)
			}
		}
	}
}
