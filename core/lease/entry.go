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
// Store behind. The lock of its shard guards it.
type entry struct {
	id
	u         units
	shard     *shard
	reply     reply
	blocks    [2]block // the last lease, after all earlier ones joined with returned tokens
	origin    int      // of the blocks
	lastBlock int64    // tokens of the last lease when it arrived; zero once the next is under way
	changes   uint64   // number of Adjusts

	waiters  []*waiter // for the next call, in the order of their arrival
	fetching bool      // a call is under way
	evicted  bool      // no longer in the shard: the Store behind decides about its waiters
	empty    bool      // a cost was denied: an empty bucket is asked again when it has minFetch tokens

	use    float64 // tokens used before useAt, halved for each lifetime
	useAt  int64   // when use was computed (ns)
	newUse int64   // tokens used after useAt
	usedAt int64   // when the entry was last looked for (ns)
}

// held returns the number of tokens that can be spent.
func (e *entry) held(now int64) (n int64) {
	for i := range e.blocks {
		n += e.blocks[i].held(&e.u, now)
	}
	return n
}

// grant spends n tokens, which are held.
func (e *entry) grant(now, n int64) grant {
	g := grant{outcome: granted, entry: e}
	e.newUse += n
	for i := range e.blocks {
		b := &e.blocks[i]
		if k := min(n, b.held(&e.u, now)); k > 0 {
			g.block.join(&e.u, b.spend(&e.u, now, k))
			n -= k
		}
	}
	return g
}

// add adds a lease.
func (e *entry) add(b block, now int64) {
	for i := range e.blocks {
		e.blocks[i].expire(&e.u, now)
	}
	e.blocks[0].join(&e.u, e.blocks[1])
	e.blocks[1] = b
	e.lastBlock = b.held(&e.u, now)
}

// setOrigin discards the tokens of other origins than origin. All tokens that are held are
// then of one side of a failover Store, and an Undo of several goes to that side.
func (e *entry) setOrigin(origin int) {
	if e.origin != origin {
		e.origin, e.blocks = origin, [2]block{}
	}
}

// cannotAdmit reports whether cost can be denied without a call: the most that the Store can
// have, with the tokens that are held and without those promised to earlier waiters, is less
// than minFree. maxAge bounds how long a reply is believed (ns).
func (e *entry) cannotAdmit(now, promised, cost, maxAge int64) bool {
	return e.reply.known && now-e.reply.sent < min(maxAge, e.reply.validFor()) &&
		e.maxFree(now)+e.held(now)-promised < e.minFree(cost)
}

// maxFree returns the largest number of tokens that the Store can have.
func (e *entry) maxFree(now int64) int64 {
	return max(0, e.u.full-e.reply.minUsed(&e.u, now)) / e.u.unit
}

// minFree returns the number of tokens that have to be there for a call about cost.
func (e *entry) minFree(cost int64) int64 {
	if e.empty {
		return max(cost, e.u.minFetch)
	}
	return cost
}

// reading returns the state of the rule with more tokens free than the Store has: those that
// are held, less those that are promised. cost, which is spent at that state, or zero, fits.
func (e *entry) reading(now, more, cost int64) driver.Reading {
	return e.u.reading(e.reply.maxUsed(&e.u, now)-more*e.u.unit, e.reply.windowLeft(now), cost)
}

// denial returns the verdict about a cost that is denied. Its RetryAfter does not count on the
// tokens that are held, which may be spent by then.
func (e *entry) denial(now, promised, cost int64) driver.Verdict {
	e.empty = e.empty || promised == 0
	v := e.u.rule.Verdict(e.reading(now, e.held(now)-promised, 0), cost, driver.Never, false)
	if v.RetryAfter != driver.Never {
		later := e.u.rule.Verdict(e.reading(now, -promised, 0), e.minFree(cost), driver.Never, false)
		v.Allowed, v.RetryAfter, v.Window = false, later.RetryAfter, later.RetryAfter
	}
	return v
}

// blockSize returns the number of tokens to lease beyond the number that callers want now: half
// of the use of the last lifetime, and for a bucket the tokens that expire before that is spent,
// but no more than a small part of the tokens that the Store has.
func (e *entry) blockSize(now, want int64) int64 {
	e.use = e.use*math.Exp2(-float64(now-e.useAt)/float64(e.u.lifetime)) + float64(e.newUse)
	e.useAt, e.newUse = now, 0
	expected := int64(min((e.use+float64(want))/2, float64(e.u.rule.Capacity())))
	if !e.reply.known || expected < minBlock {
		return 0
	}
	expiring := max(0, e.u.refill(e.u.lifetime/2000)-e.reply.maxUsed(&e.u, now)) / e.u.unit
	spare := max(0, e.maxFree(now)-want)
	n := min(expected+expiring, max(spare/maxFraction, min(spare, e.u.minFetch)))
	if n < minBlock {
		return 0
	}
	return n
}

// needsPrefetch reports whether so few tokens are held that the next block should be fetched.
func (e *entry) needsPrefetch(held int64) bool {
	return !e.fetching && e.lastBlock >= 8*minBlock && held*4 < e.lastBlock
}

// invalidate notes an Adjust. Replies of calls that are under way are no evidence of the state
// after it.
func (e *entry) invalidate() {
	e.changes++
	e.reply.distrust()
	e.empty = false
}

// remember keeps the verdict of the Store behind about c, which was passed through when the
// entry had seen so many changes.
func (e *entry) remember(c *driver.Charge, changes uint64, sent, heard int64) {
	e.shard.mu.Lock()
	defer e.shard.mu.Unlock()
	if e.changes == changes && (!e.reply.known || heard >= e.reply.heard) {
		e.reply = newReply(&e.u, c, sent, heard)
	}
}
