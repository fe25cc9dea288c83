package lease

import (
	"math"

	"github.com/weir-go/weir/core/driver"
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
	blocks [2]block // the last lease, after all others and what was put back
	origin int      // of the blocks
	first  int64    // tokens of the last lease, at first
	dry    bool     // an empty bucket is left to rest

	flying  bool      // the Store is asked
	queue   []*waiter // who waits for the next answer
	resets  uint64    // how often it was reset
	changes uint64    // how often the state has changed in other ways than by a lease

	used  float64 // how much was used of late, half of what was a lifetime ago
	since int64   // when that was reckoned
	spent int64   // what was used since then

	gone bool // it was pushed out

	prev, next *cell // by when they were used
}

// held is how many tokens can be spent.
func (c *cell) held(now int64) (n int64) {
	for i := range c.blocks {
		n += c.blocks[i].held(c.m, now)
	}
	return n
}

// spend takes n tokens, which are held.
func (c *cell) spend(now, n int64) (t block) {
	c.spent += n
	for i := range c.blocks {
		b := &c.blocks[i]
		if k := min(n, b.held(c.m, now)); k > 0 {
			t.join(c.m, b.spend(c.m, now, k))
			n -= k
		}
	}
	return t
}

// restore puts back tokens of a decision that was denied or has failed, except those that
// have expired, those from before a Reset, and those of another side of the store.
func (c *cell) restore(now int64, t *taken) {
	c.spent -= t.tokens(c.m)
	if t.resets != c.resets || t.origin != c.origin {
		return
	}
	t.trim(c.m, now)
	c.blocks[0].trim(c.m, now)
	c.blocks[0].join(c.m, t.block)
}

// keep adds a block.
func (c *cell) keep(b block, now int64) {
	for i := range c.blocks {
		c.blocks[i].trim(c.m, now)
	}
	c.blocks[0].join(c.m, c.blocks[1])
	c.blocks[1] = b
	c.first = b.held(c.m, now)
}

// follow drops the tokens of another side of the store than origin: all that are held are
// then of one side, and an Undo goes to the side that gave them.
func (c *cell) follow(origin int) {
	if c.origin != origin {
		c.origin, c.blocks = origin, [2]block{}
	}
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
func (c *cell) verdict(now, more, cost int64, spent bool) driver.Verdict {
	used := c.said.most(c.m, now) - more*c.m.unit
	return c.m.verdict(used, c.said.lasts(now), cost, spent)
}

// denial is the verdict about a cost that is refused.
func (c *cell) denial(now, claims, cost int64) driver.Verdict {
	v := c.verdict(now, c.held(now)-claims, cost, false)
	if v.RetryAfter != driver.Never {
		// What is held may be gone by then.
		v.Allowed, v.RetryAfter = false, c.verdict(now, -claims, c.need(cost), false).RetryAfter
		v.Window = v.RetryAfter
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
// in the last lifetime, and what expires before it comes to that, but no more than a
// small part of what is left.
func (c *cell) extra(now, want int64) int64 {
	expected := int64(min(c.reckon(now, want)/2, float64(c.m.capacity())))
	if !c.said.known || expected < minBlock {
		return 0
	}
	expiring := max(0, c.m.refill(c.m.life/2000)-c.said.most(c.m, now)) / c.m.unit
	spare := max(0, c.free(now)-want)
	n := min(expected+expiring, max(spare/share, min(spare, c.m.soon)))
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
