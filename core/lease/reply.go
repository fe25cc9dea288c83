package lease

import (
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A reply is the Store's last verdict about a rule of a key. The state at a later time is estimated
// as if no other process had charged the key since heard, when the call ended. The Store decided
// earlier, so a caller that waits for the RetryAfter of such a state is not too early.
type reply struct {
	known bool
	heard int64 // when the call ended (ns)
	used  int64 // the units in use, including the leased tokens of all processes
	left  int64 // the time from the decision to the end of the window (ns)
}

// forever is the value of reply.left for a bucket, which has no window.
const forever = 1 << 62

// newReply converts the Verdict of c. The reply is unknown if the Store applied another limit, for
// example the fraction of the limit that failover.Instances sets for an outage.
func newReply(u *units, c *driver.Charge, heard int64) reply {
	v := &c.Verdict
	if v.Rule != nil && u.rule.Constants != v.Rule.Constants {
		return reply{}
	}
	r := reply{known: true, heard: heard, left: forever}
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

// inUse returns the units that are in use at now: none if the reply is unknown.
func (r *reply) inUse(u *units, now int64) int64 {
	if now-r.heard >= r.left {
		return 0
	}
	return max(0, r.used-u.refill(max(0, now-r.heard)/1000))
}

// free returns the number of tokens that the Store has at now.
func (r *reply) free(u *units, now int64) int64 { return max(0, u.full-r.inUse(u, now)) / u.unit }

// reading returns the state of the rule at now as if the Store had more tokens, by the number held.
// spent is zero or the cost of an admitted event, for which the state has capacity.
func (r *reply) reading(u *units, now, held, spent int64) driver.Reading {
	used := max(0, r.inUse(u, now)-held*u.unit)
	if spent > 0 {
		used = min(used, u.full-spent*u.unit)
	}
	if u.rate > 0 {
		return driver.Reading{Used: u.span(used)}
	}
	return driver.Reading{Count: used, Left: max(1, micros(r.heard+r.left-now))}
}

// denial returns the verdict that denies cost. Its RetryAfter ends after the rest of a bucket, and
// ignores the held tokens, because they may be spent by then.
func (r *reply) denial(u *units, now, held, cost int64) driver.Verdict {
	v := u.verdict(r.reading(u, now, held, 0), cost, false)
	later := u.verdict(r.reading(u, now, 0, 0), max(cost, u.restRefill), false)
	v.Allowed, v.RetryAfter, v.Window = false, later.RetryAfter, later.RetryAfter
	return v
}
