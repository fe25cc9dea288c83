package lease

import (
	"math"

	"github.com/weir-go/weir/core/driver"
)

// An entry holds the leased tokens for one rule and plan of one key, and the last reply of the
// Store behind about them. The entries of one rule and key differ in their plans, and have one hash.
// The entries of one hash form a list. To an entry, the charges of another plan are like the charges
// of another process: both change the same State in the Store behind. The lock of the shard guards
// the entry, except for key and u, which do not change.
type entry struct {
	key       string
	hash      uint64
	next      *entry // of the same hash, or nil
	u         units  // the limit of the plan
	shard     *shard
	reply     reply
	blocks    [2]block // 0: all earlier leases and returned tokens, joined; 1: the last lease
	origin    int      // the side of a failover Store (primary or backup) that leased the blocks
	lastBlock int64    // tokens of the last lease when it arrived; zero after a prefetch began

	waiters  []*waiter // for the next call, in the order of their arrival
	fetching bool      // a call is under way
	evicted  bool      // no longer in the shard: the Store behind decides about its waiters
	empty    bool      // a cost was denied with the last reply

	use    float64 // tokens used before useAt; each counts half as much after every lifetime
	useAt  int64   // when use was computed (ns)
	newUse int64   // tokens used after useAt
	usedAt int64   // when a charge last used the entry (ns)
}

// is reports whether e is for the rule and key of c.
func (e *entry) is(c *driver.Charge) bool { return e.u.rule.ID == c.Rule.ID && e.key == c.Key }

// held returns the number of tokens that are held: leased, and neither spent nor expired.
func (e *entry) held(now int64) (n int64) {
	for i := range e.blocks {
		n += e.blocks[i].held(&e.u, now)
	}
	return n
}

// grant spends n tokens, which the entry must hold, and returns them.
func (e *entry) grant(now, n int64) (g grant) {
	g.outcome, g.entry = granted, e
	e.newUse += n
	for i := range e.blocks {
		b := &e.blocks[i]
		if n == 0 || b.end-b.begin < e.u.unit {
			continue
		}
		b.expire(&e.u, now)
		k := n
		if b.end-b.begin < n*e.u.unit {
			k = b.tokens(&e.u)
		}
		g.block.join(&e.u, b.split(&e.u, k))
		n -= k
	}
	return g
}

// add adds b, the tokens of a new lease.
func (e *entry) add(b block, now int64) {
	for i := range e.blocks {
		e.blocks[i].expire(&e.u, now)
	}
	e.blocks[0].join(&e.u, e.blocks[1])
	e.blocks[1] = b
	e.lastBlock = b.held(&e.u, now)
}

// setOrigin sets e.origin, and drops the held tokens if they have another origin. All held tokens
// then come from one side of a failover Store, so an Undo of several tokens goes to the right side.
func (e *entry) setOrigin(origin int) {
	if e.origin != origin {
		e.origin, e.blocks = origin, [2]block{}
	}
}

// blockSize returns the number of tokens to lease in addition to the want tokens for waiting
// callers: half of the use of the last lifetime plus, for a bucket, the tokens that expire within
// half a lifetime. The sum is limited to a small part of the tokens that the Store has.
func (e *entry) blockSize(now, want int64) int64 {
	e.use = e.use*math.Exp2(-float64(now-e.useAt)/float64(e.u.lifetime)) + float64(e.newUse)
	e.useAt, e.newUse = now, 0
	expected := int64(min((e.use+float64(want))/2, float64(e.u.rule.Constants.Capacity)))
	if !e.reply.known || expected < minBlock {
		return 0
	}
	expiring := max(0, e.u.refill(e.u.lifetime/2000)-e.reply.inUse(&e.u, now)) / e.u.unit
	spare := max(0, e.reply.free(&e.u, now)-want)
	n := min(expected+expiring, max(spare/maxFraction, min(spare, e.u.restRefill)))
	if n < minBlock {
		return 0
	}
	return n
}

// needsPrefetch reports whether the held tokens are so few that the next block must be fetched.
func (e *entry) needsPrefetch(held int64) bool {
	return !e.fetching && e.lastBlock >= 8*minBlock && held*4 < e.lastBlock
}

// rests reports whether the last reply denied a cost, at most rest ago, and the bucket has refilled
// too little since then for the next call. Without rests, a used up bucket of a high rate would be
// asked in one call after another for the few tokens that refill during a round trip.
func (e *entry) rests(now int64) bool {
	return e.empty && e.reply.known && now-e.reply.heard < int64(rest) && e.reply.free(&e.u, now) < e.u.restRefill
}

// remember stores the reply of the Store behind about c in e, unless e has a later reply.
func (e *entry) remember(c *driver.Charge, heard int64) {
	e.shard.mu.Lock()
	defer e.shard.mu.Unlock()
	e.shard.forward(heard)
	if c.Verdict.Allowed {
		e.newUse += int64(c.Cost)
	}
	if heard >= e.reply.heard {
		e.reply = newReply(&e.u, c, heard)
	}
}
