package lease

import (
	"math"

	"github.com/weir-go/weir/core/driver"
)

// An account holds the leased tokens for one rule and plan of one key, and the last reply of the
// Store behind about them. The accounts of one rule and key differ in their plans, and have one hash.
// The accounts of one hash form a list. To an account, the charges of another plan are like the charges
// of another process: both change the same State in the Store behind. The lock of the shard guards
// the account, except for key and u, which do not change.
type account struct {
	key        string
	hash       uint64
	next       *account // of the same hash, or nil
	u          units    // the limit of the plan
	shard      *shard
	reply      reply
	bundles    [2]bundle // 0: all earlier leases and returned tokens, joined; 1: the last lease
	origin     int       // the side of a failover Store (primary or backup) that leased the bundles
	lastBundle int64     // tokens of the last lease when it arrived; zero after a prefetch began

	waiters  []*waiter // for the next call, in the order of their arrival
	fetching bool      // a call is under way
	evicted  bool      // no longer in the shard: the Store behind decides about its waiters
	empty    bool      // a cost was denied with the last reply

	use    float64 // tokens used before useAt; each counts half as much after every lifetime
	useAt  int64   // when use was computed (ns)
	newUse int64   // tokens used after useAt
	usedAt int64   // when a charge last used the account (ns)
}

// is reports whether a is for the rule and key of c.
func (a *account) is(c *driver.Charge) bool { return a.u.rule.ID == c.Rule.ID && a.key == c.Key }

// held returns the number of tokens that are held: leased, and neither spent nor expired.
func (a *account) held(now int64) (n int64) {
	for i := range a.bundles {
		n += a.bundles[i].held(&a.u, now)
	}
	return n
}

// grant spends n tokens, which the account must hold, and returns them.
func (a *account) grant(now, n int64) (g grant) {
	g.outcome, g.account = granted, a
	a.newUse += n
	for i := range a.bundles {
		b := &a.bundles[i]
		if n == 0 || b.end-b.begin < a.u.unit {
			continue
		}
		b.expire(&a.u, now)
		k := n
		if b.end-b.begin < n*a.u.unit {
			k = b.tokens(&a.u)
		}
		g.bundle.join(&a.u, b.split(&a.u, k))
		n -= k
	}
	return g
}

// add adds b, the tokens of a new lease.
func (a *account) add(b bundle, now int64) {
	for i := range a.bundles {
		a.bundles[i].expire(&a.u, now)
	}
	a.bundles[0].join(&a.u, a.bundles[1])
	a.bundles[1] = b
	a.lastBundle = b.held(&a.u, now)
}

// setOrigin sets a.origin, and drops the held tokens if they have another origin. All held tokens
// then come from one side of a failover Store, so an Undo of several tokens goes to the right side.
func (a *account) setOrigin(origin int) {
	if a.origin != origin {
		a.origin, a.bundles = origin, [2]bundle{}
	}
}

// bundleSize returns the number of tokens to lease in addition to the want tokens for waiting
// callers: half of the use of the last lifetime plus, for a bucket, the tokens that expire within
// half a lifetime. The sum is limited to a small part of the tokens that the Store has.
func (a *account) bundleSize(now, want int64) int64 {
	a.use = a.use*math.Exp2(-float64(now-a.useAt)/float64(a.u.lifetime)) + float64(a.newUse)
	a.useAt, a.newUse = now, 0
	expected := int64(min((a.use+float64(want))/2, float64(a.u.rule.Constants.Capacity)))
	if !a.reply.known || expected < minBundle {
		return 0
	}
	expiring := max(0, a.u.refill(a.u.lifetime/2000)-a.reply.inUse(&a.u, now)) / a.u.unit
	spare := max(0, a.reply.free(&a.u, now)-want)
	n := min(expected+expiring, max(spare/maxFraction, min(spare, a.u.restRefill)))
	if n < minBundle {
		return 0
	}
	return n
}

// needsPrefetch reports whether the held tokens are so few that the next bundle must be fetched.
func (a *account) needsPrefetch(held int64) bool {
	return !a.fetching && a.lastBundle >= 8*minBundle && held*4 < a.lastBundle
}

// rests reports whether the last reply denied a cost, at most rest ago, and the bucket has refilled
// too little since then for the next call. Without rests, a used up bucket of a high rate would be
// asked in one call after another for the few tokens that refill during a round trip.
func (a *account) rests(now int64) bool {
	return a.empty && a.reply.known && now-a.reply.heard < int64(rest) && a.reply.free(&a.u, now) < a.u.restRefill
}

// remember stores the reply of the Store behind about c in a, unless that has a later reply.
func (a *account) remember(c *driver.Charge, heard int64) {
	a.shard.mu.Lock()
	defer a.shard.mu.Unlock()
	a.shard.forward(heard)
	if c.Verdict.Allowed {
		a.newUse += int64(c.Cost)
	}
	if heard >= a.reply.heard {
		a.reply = newReply(&a.u, c, heard)
	}
}
