package lease

import (
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A reply is the Store's last verdict about a rule of a key. The Store decided at some moment
// between sent and heard. The greatest number of tokens that the Store can have is computed from
// sent, so no event is denied that the Store could admit. The times in verdicts are computed from
// heard, so a caller that waits for its RetryAfter is not too early.
type reply struct {
	known       bool
	sent, heard int64 // when the call began and ended (ns)
	used        int64 // the units in use, including the leased tokens of all processes
	left        int64 // the time from the decision to the end of the window (ns)
}

// forever is the value of reply.left for a bucket, which has no window.
const forever = 1 << 62

// newReply converts the Verdict of c. The reply is unknown if the Store applied another limit, for
// example the fraction of the limit that failover.Instances sets for an outage.
func newReply(u *units, c *driver.Charge, sent, heard int64) reply {
	v := &c.Verdict
	if v.Rule != nil && !u.rule.Equivalent(v.Rule) {
		return reply{}
	}
	r := reply{known: true, sent: sent, heard: heard, left: forever}
	if u.rate == 0 {
		r.used, r.left = u.full-int64(v.Remaining), int64(v.Window)
		return r
	}
	reset := int64(v.ResetAfter / time.Microsecond)
	if reset > maxUnits/u.rate {
		return reply{} // in debt for longer than can be counted here
	}
	if r.used = reset * u.rate; v.Remaining > 0 { // ResetAfter is rounded up, Remaining is not
		r.used = min(r.used, u.full-int64(v.Remaining)*u.unit)
	}
	return r
}

// maxUsed returns the most units that can be in use at now if no other process takes tokens.
func (r *reply) maxUsed(u *units, now int64) int64 {
	if now-r.heard >= r.left {
		return 0
	}
	return max(0, r.used-u.refill(max(0, now-r.heard)/1000))
}

// reading returns the state of the rule as if the Store had more tokens, by the number extra:
// usually the held tokens minus the promised tokens. cost is zero or the cost of an admitted event.
// For an admitted event, the result is the state before its charge, with capacity for cost.
func (r *reply) reading(u *units, now, extra, cost int64) driver.Reading {
	return u.reading(r.maxUsed(u, now)-extra*u.unit, r.heard+r.left-now, cost)
}

// denial returns the verdict that denies cost. Its RetryAfter is the time until required tokens are
// available. It ignores the held tokens, because they may be spent by then.
func (r *reply) denial(u *units, now, held, promised, cost, required int64) driver.Verdict {
	v := u.rule.Verdict(r.reading(u, now, held-promised, 0), cost, driver.Never, false)
	if v.RetryAfter != driver.Never {
		later := u.rule.Verdict(r.reading(u, now, -promised, 0), required, driver.Never, false)
		v.Allowed, v.RetryAfter, v.Window = false, later.RetryAfter, later.RetryAfter
	}
	return v
}

// minUsed returns the fewest units that can be in use at now unless another process frees some.
func (r *reply) minUsed(u *units, now int64) int64 {
	if now-r.sent >= r.validFor() {
		return 0
	}
	return max(0, r.used-u.refill(micros(now-r.sent)))
}

// validFor returns the least time from sent to the end of the window. The Store's clock counts
// whole microseconds.
func (r *reply) validFor() int64 { return r.left - int64(time.Microsecond) }

// distrust ensures that r is used only for the times in verdicts, and not to deny a cost.
func (r *reply) distrust() { r.sent = -forever / 2 }
