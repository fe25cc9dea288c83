package lease

import (
	"math"

	"github.com/weir-go/weir/core/driver"
)

// An id names a rule of a key.
type id struct {
	rule uint64
	key  string
}

// An entry is the leased tokens of a rule of a key, and what is known about its state in the
// Store. The lock of its shard guards it.
type entry struct {
	id
	u      *units
	reply  reply
	blocks [2]block // the last lease, after all earlier ones joined with restored tokens
	origin int      // of the blocks
	leased int64    // tokens of the last lease when it arrived; zero once the next is under way
	empty  bool     // the Store denied: an empty bucket is asked again when it has minFetch tokens

	fetching bool      // a call is under way
	waiters  []*waiter // for the next call, in the order of their arrival
	resets   uint64    // number of Resets
	changes  uint64    // number of Adjusts

	used  float64 // tokens used before since, halved for each lifetime
	since int64   // when used was computed (ns)
	spent int64   // tokens used after since

	evicted bool

	prev, next *entry // in the list of the shard
}

// held returns the number of tokens that can be spent.
func (e *entry) held(now int64) (n int64) {
	for i := range e.blocks {
		n += e.blocks[i].held(e.u, now)
	}
	return n
}

// spend takes n tokens, which are held.
func (e *entry) spend(now, n int64) (t block) {
	e.spent += n
	for i := range e.blocks {
		b := &e.blocks[i]
		if k := min(n, b.held(e.u, now)); k > 0 {
			t.join(e.u, b.spend(e.u, now, k))
			n -= k
		}
	}
	return t
}

// restore puts back the tokens of a decision that was denied or has failed, except those that
// have expired, those from before a Reset, and those of another side of a failover Store.
func (e *entry) restore(now int64, g *grant) {
	e.spent -= g.tokens(e.u)
	if g.resets != e.resets || g.origin != e.origin {
		return
	}
	g.trim(e.u, now)
	e.blocks[0].trim(e.u, now)
	e.blocks[0].join(e.u, g.block)
}

// add adds a lease.
func (e *entry) add(b block, now int64) {
	for i := range e.blocks {
		e.blocks[i].trim(e.u, now)
	}
	e.blocks[0].join(e.u, e.blocks[1])
	e.blocks[1] = b
	e.leased = b.held(e.u, now)
}

// drop discards all tokens.
func (e *entry) drop() { e.blocks = [2]block{} }

// setOrigin discards the tokens of other origins than origin. All tokens that are held are
// then of one side of a failover Store, and an Undo of several goes to that side.
func (e *entry) setOrigin(origin int) {
	if e.origin != origin {
		e.origin = origin
		e.drop()
	}
}

// cannotAdmit says whether cost can be denied without a call: the most that the Store can
// have, with the tokens that are held and without those claimed by earlier waiters, is less
// than minFree. maxAge bounds how long a reply is believed (ns).
func (e *entry) cannotAdmit(now, claims, cost, maxAge int64) bool {
	if !e.reply.known || now-e.reply.sent >= min(maxAge, e.reply.validFor()) {
		return false
	}
	if e.maxFree(now)+e.held(now)-claims >= e.minFree(cost) {
		return false
	}
	e.empty = e.empty || claims == 0
	return true
}

// maxFree returns the largest number of tokens that the Store can have.
func (e *entry) maxFree(now int64) int64 {
	return max(0, e.u.full-e.reply.minUsed(e.u, now)) / e.u.unit
}

// minFree returns the number of tokens that have to be there for a call about cost.
func (e *entry) minFree(cost int64) int64 {
	if e.empty {
		return max(cost, e.u.minFetch)
	}
	return cost
}

// reading returns the state of the rule with more tokens free than the Store has: those that are
// held, less those that are claimed. A cost that is spent at that state, or zero, fits.
func (e *entry) reading(now, more, spent int64) driver.Reading {
	return e.u.reading(e.reply.maxUsed(e.u, now)-more*e.u.unit, e.reply.windowLeft(now), spent)
}

// denial returns the verdict about a cost that is denied. Its RetryAfter does not count on the
// tokens that are held, which may be spent by then.
func (e *entry) denial(now, claims, cost int64) driver.Verdict {
	v := e.u.rule.Verdict(e.reading(now, e.held(now)-claims, 0), cost, driver.Never, false)
	if v.RetryAfter != driver.Never {
		later := e.u.rule.Verdict(e.reading(now, -claims, 0), e.minFree(cost), driver.Never, false)
		v.Allowed, v.RetryAfter, v.Window = false, later.RetryAfter, later.RetryAfter
	}
	return v
}

// blockSize returns the number of tokens to lease beyond the number that callers want now: half
// of the use of the last lifetime, and for a bucket what expires before that is spent, but no
// more than a small part of what is left.
func (e *entry) blockSize(now, want int64) int64 {
	e.used = e.used*math.Exp2(-float64(now-e.since)/float64(e.u.lifetime)) + float64(e.spent)
	e.since, e.spent = now, 0
	expected := int64(min((e.used+float64(want))/2, float64(e.u.rule.Capacity())))
	if !e.reply.known || expected < minBlock {
		return 0
	}
	expiring := max(0, e.u.refill(e.u.lifetime/2000)-e.reply.maxUsed(e.u, now)) / e.u.unit
	spare := max(0, e.maxFree(now)-want)
	n := min(expected+expiring, max(spare/maxFraction, min(spare, e.u.minFetch)))
	if n < minBlock {
		return 0
	}
	return n
}

// needsPrefetch says whether so few tokens are held that the next block should be fetched.
func (e *entry) needsPrefetch(held int64) bool {
	return !e.fetching && e.leased >= 8*minBlock && held*4 < e.leased
}

// invalidate notes an Adjust. Replies of calls that are under way are no evidence of the state
// after it.
func (e *entry) invalidate() {
	e.changes++
	e.reply.distrust()
	e.empty = false
}
