package denycache

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// A cacheKey identifies one rule of one key.
type cacheKey struct {
	key  string // or its SHA-256
	size int    // of the key; it differs if a key of 32 bytes equals the SHA-256 of a longer key
	rule uint64
}

// maxKeyLength is the length of the longest key that is kept as it is (bytes). It bounds the
// memory of a cached denial, because clients may choose their keys.
const maxKeyLength = 128

func keyOf(c *driver.Charge) cacheKey {
	k := cacheKey{key: c.Key, size: len(c.Key), rule: c.Rule.ID}
	if k.size > maxKeyLength {
		digest := sha256.Sum256([]byte(c.Key))
		k.key = string(digest[:])
	}
	return k
}

// A denial is a Verdict of the Store that denies a cost.
type denial struct {
	rule     *driver.Compiled // of the charge
	cost     int64
	maxDelay int64 // the longest time for which the event could be held, in microseconds
	heard    int64 // when the verdict arrived
	until    int64 // when the denial ends
	verdict  driver.Verdict
}

// newDenial returns the Store's denial of c, with heard unset. If c was admitted and nothing
// remains, newDenial returns the denial that the next event would get. Otherwise ok is false.
//
// The denial never ends too late: it is counted from sent, although the Store decided later, and is
// shorter by a microsecond, because the Store's clock counts whole microseconds. A denial of an in-flight
// rule is none, because it ends when an event ends.
func newDenial(c *driver.Charge, sent, maxAge int64) (d denial, ok bool) {
	if c.Rule.Kind.Holds {
		return d, false
	}
	d = denial{rule: c.Rule, cost: int64(c.Cost), maxDelay: maxDelay(c), verdict: c.Verdict}
	v := &d.verdict
	if v.Allowed {
		if v.Remaining > 0 || v.Rule.Constants.Extra > 0 {
			return d, false
		}
		d.cost, d.maxDelay = 1, driver.Never
		v.Allowed, v.RetryAfter, v.Delay, v.Done = false, v.Window, 0, false
	}
	if c.Rule.Kind.Closes {
		d.cost = 1 // denies all costs alike
	}
	lasts := v.RetryAfter
	if lasts == driver.Never {
		// One denial covers all costs above the capacity. Otherwise, clients could fill them.
		d.cost, d.maxDelay = v.Rule.Constants.Capacity+1, driver.Never
		if !v.Rule.Kind.Refills {
			lasts = v.Window // until then, Remaining is the same
		}
	} else if d.cost > v.Rule.Constants.Capacity {
		return d, false // the Store decides by a part of the rule for an unknown time
	}
	d.until = sent + min(int64(lasts-time.Microsecond), maxAge)
	return d, true
}

// maxDelay returns the longest time for which the event of c may be held, in microseconds. Only
// a leaky bucket holds events.
func maxDelay(c *driver.Charge) int64 {
	if !c.Rule.Kind.Delays || c.MaxDelay == 0 {
		return driver.Never
	}
	return c.MaxDelay.Microseconds()
}

// covers reports whether d denies an event of cost under rule, and the Verdict on that event can be
// computed from d. For the sliding algorithms only the Store knows when a larger cost fits, and for a quota with a rollover
// when one above the limit does.
func (d *denial) covers(rule *driver.Compiled, cost, maxDelay int64) bool {
	if cost < d.cost || maxDelay > d.maxDelay || d.rule.Constants != rule.Constants {
		return false
	}
	k := &rule.Constants
	return cost == d.cost || d.verdict.RetryAfter == driver.Never || rule.Kind.Covers && (k.Rollover == 0 || cost <= k.Capacity-k.Extra-k.Rollover)
}

// verdictAt returns the Verdict at now for c, which d covers. The times in the Verdict are too long
// by the delay between the decision of the Store and d.heard.
func (d *denial) verdictAt(c *driver.Charge, now int64) driver.Verdict {
	v, rule := d.verdict, d.verdict.Rule
	since := time.Duration(now - d.heard).Truncate(time.Microsecond)
	v.ResetAfter = max(0, v.ResetAfter-since)
	if rule.Kind.Refills {
		used := driver.Span{Micros: v.ResetAfter.Microseconds()} // rounded up, which may hide a token
		denied := driver.Charge{Rule: rule, Cost: c.Cost, MaxDelay: c.MaxDelay}
		denied.Answer(&driver.Reading{Used: used}, false)
		v = denied.Verdict
		v.Remaining = max(v.Remaining, d.verdict.Remaining)
	} else {
		v.Window -= since
		v.RetryAfter -= since
		if int64(c.Cost) > rule.Constants.Capacity {
			v.RetryAfter = driver.Never
		}
	}
	if rule == d.rule {
		v.Rule = c.Rule // c.Rule may be another Rule with the same constants
	}
	return v
}

// denials are the cached denials of one rule of one key: for different costs, and for the
// different limits of plans, of variants and of an elastic rule. They are immutable and are
// replaced as a whole.
type denials []denial

// maxDenials is the largest length of denials. Clients may choose their costs. More than eight
// limits in turn for one key, or more costs in a log, are a call for every decision.
const maxDenials = 8

// find returns a denial that covers c, preferably one that has not ended at now, or nil.
func (all denials) find(c *driver.Charge, now int64) (found *denial) {
	cost, maxDelay := int64(c.Cost), maxDelay(c)
	for i := range all {
		if d := &all[i]; d.covers(c.Rule, cost, maxDelay) && (found == nil || now < d.until) {
			found = d
		}
	}
	return found
}

// with returns all with d added, and without the denials that have ended or that d covers. If there
// are more than maxDenials, the oldest denial is left out. A d that has ended is not added.
func (all denials) with(d denial) denials {
	next := make(denials, 0, len(all)+1)
	for _, old := range all {
		if d.heard < old.until && !d.covers(old.rule, old.cost, old.maxDelay) {
			next = append(next, old)
		}
	}
	if d.heard < d.until {
		next = append(next, d)
	}
	return slices.Clone(next[max(0, len(next)-maxDenials):])
}
