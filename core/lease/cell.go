package lease

import (
	"math"
	"time"

	"github.com/weir-go/weir/core/internal/algo"
)

// A place is a rule of a key.
type place struct {
	rule uint64
	key  string
}

// A cell is what is known here of a place, and leased. The lock of its shard guards
// it.
type cell struct {
	place
	m      *meter
	said   report
	blocks [2]block // what is left of the last lease but one, and the last
	first  int64    // what the last lease had at first
	dry    bool     // an empty bucket is left to rest

	flying  bool      // the Store is asked
	queue   []*waiter // who waits for the next answer
	resets  uint64    // how often it was reset
	changes uint64    // how often the state has changed in other ways than by a lease

	used  float64 // how much was used of late, half of what was a lifetime ago
	since int64   // when that was reckoned
	spent int64   // what was used since then

	timer   *time.Timer // of the end of the blocks
	ticking bool
	gone    bool // it was pushed out

	prev, next *cell // by when they were used
}

// held is how many tokens can be spent.
func (c *cell) held(now int64) (n int64) {
	for i := range c.blocks {
		if c.blocks[i].serial != 0 {
			n += c.blocks[i].held(c.m, now)
		}
	}
	return n
}

// spend takes n tokens, which are held.
func (c *cell) spend(now, n int64) (t taken) {
	c.spent += n
	for i := range c.blocks {
		b := &c.blocks[i]
		if k := min(n, b.held(c.m, now)); k > 0 {
			t = t.with(c.m, b.spend(c.m, now, k))
			n -= k
		}
	}
	return t
}

// restore takes back n tokens, or says what goes back to the Store instead: their block
// may be gone, or they may have melted.
func (c *cell) restore(now, n int64, t taken) (d debt, owed bool) {
	c.spent -= n
	for i := range c.blocks {
		if c.blocks[i].unspend(c.m, now, n, t) {
			return d, false
		}
	}
	return c.owe(n, t), true
}

// owe is what goes back to the Store of what was spent here.
func (c *cell) owe(n int64, t taken) debt {
	for i := range c.blocks {
		c.blocks[i].broken = true
	}
	c.said.used -= n * c.m.unit
	return t.owed(c.m, c.key, n, t.first)
}

// keep adds a block, and returns what has to give way for it.
func (c *cell) keep(b block, now int64) (old block) {
	if c.blocks[0].held(c.m, now) > 0 && c.blocks[1].held(c.m, now) > 0 {
		old = c.blocks[0]
	}
	if c.blocks[1].held(c.m, now) > 0 {
		c.blocks[0] = c.blocks[1]
	}
	c.blocks[1] = b
	c.first = b.rest(c.m, now)
	return old
}

// refuses says whether the Store cannot have enough for cost even with what is held
// here, when claims are to be served before. When there was not enough once, there has
// to be some more.
func (c *cell) refuses(now, claims, cost, maxAge int64) bool {
	if !c.said.known || now-c.said.sent >= min(maxAge, c.said.surely()) {
		return false
	}
	if c.free(now)+c.held(now)-claims >= c.need(cost) {
		return false
	}
	c.dry = c.dry || claims == 0
	return true
}

// free is the most that the Store can have.
func (c *cell) free(now int64) int64 {
	return max(0, c.m.full-c.said.least(c.m, now)) / c.m.unit
}

// need is what there has to be for cost to be asked for.
func (c *cell) need(cost int64) int64 {
	if c.dry {
		return max(cost, c.m.soon)
	}
	return cost
}

// verdict is what the rule says about cost, when so much more is there than the Store
// has: what is held, less what is somebody else's already. spent tells whether the cost
// was then spent.
func (c *cell) verdict(now, more, cost int64, spent bool) algo.Verdict {
	used := c.said.most(c.m, now) - more*c.m.unit
	return c.m.verdict(used, c.said.lasts(now), cost, spent)
}

// denial is the verdict about a cost that is refused.
func (c *cell) denial(now, claims, cost int64) algo.Verdict {
	v := c.verdict(now, c.held(now)-claims, cost, false)
	if v.Retry != algo.Never {
		// What is held may be gone by then.
		v.Allowed, v.Retry = false, c.verdict(now, -claims, c.need(cost), false).Retry
		v.Window = v.Retry
	}
	return v
}

// reckon brings up to date how much is used, with cost to come.
func (c *cell) reckon(now, cost int64) float64 {
	c.used = c.used*math.Exp2(-float64(now-c.since)/float64(c.m.life)) + float64(c.spent)
	c.since, c.spent = now, 0
	return c.used + float64(cost)
}

// extra is how much is worth leasing beyond what is wanted now: half of what was used
// in the last lifetime, and what melts before it comes to that, but no more than a
// small part of what is left.
func (c *cell) extra(now, want int64) int64 {
	expected := int64(min(c.reckon(now, want)/2, float64(c.m.capacity())))
	if !c.said.known || expected < minBlock {
		return 0
	}
	melts := max(0, c.m.refill(c.m.life/2000)-c.said.most(c.m, now)) / c.m.unit
	spare := max(0, c.free(now)-want)
	n := min(expected+melts, max(spare/share, min(spare, c.m.soon)))
	if n < minBlock {
		return 0
	}
	return n
}

// low says whether that is so little to hold that the next block should be under way.
func (c *cell) low(held int64) bool {
	return !c.flying && c.first >= 8*minBlock && held*4 < c.first
}

// change is for when the state has changed in other ways than by a lease. What is
// under way says nothing about it.
func (c *cell) change() {
	c.changes++
	c.said.doubt()
	c.dry = false
}

// owes is what goes back of b. What is told about the Store heeds it from now on.
func (c *cell) owes(b *block, now int64) (debts []debt) {
	if b.serial == 0 || now >= b.over {
		return nil
	}
	whole := b.bottom
	if b.broken {
		whole = forever
	}
	// First what is above the holes, for as long as it is in one piece with what is below.
	pieces := append([]hole{{b.front, b.limit}}, b.holes...)
	for _, h := range pieces {
		n := c.m.tokens(h, b.melted(c.m, now))
		if n == 0 {
			whole = forever
			continue
		}
		t := b.slots(c.m, h.limit-n*c.m.unit)
		d := t.owed(c.m, c.key, n, min(whole, t.first))
		whole = forever
		// What the Store will count as refilled does not come back.
		refilled := max(0, c.m.refill((now-b.asked)/1000+c.m.guard)-c.m.count(d.mark.Used))
		if back := n*c.m.unit - refilled; back > 0 {
			c.said.used -= back
			debts = append(debts, d)
		}
	}
	return debts
}
