package gate

import (
	"cmp"
	"math/bits"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/memo"
)

// A policy describes a rule to clients. newPolicy formats the parts that never change.
type policy struct {
	rule    core.Rule
	visible bool   // clients see the rule
	quota   bool   // the length of the window is that of a period of the calendar, see appendPolicy
	places  bool   // the rule is in flight: neither its window nor the end of a denial is known
	client  string // the name of the rule for clients
	name    string // client as a String of RFC 9651
	unit    string // of the events
	member  string // of RateLimit-Policy
	limit   string // the beginning of the member of RateLimit, up to the number that remains
	// The texts about denials with a Retry-After of n seconds are at n modulo the length. Without a length, none is kept.
	denials []atomic.Pointer[denialTexts]
}

// quotaUnits has the parameter qu for the units that draft-ietf-httpapi-ratelimit-headers defines. It
// is left out for requests, and cannot express other units. Places that no cost counts are of requests.
var quotaUnits = map[string]string{
	"bytes": `;qu="content-bytes"`, "content-bytes": `;qu="content-bytes"`, "concurrent-requests": `;qu="concurrent-requests"`,
}

// denialTexts holds the texts about a denial that depend only on the policy, on Retry-After and on
// the end of a block or ban.
type denialTexts struct {
	retry      int64  // in seconds, zero if the request can never be admitted, or unknownRetry
	end        int64  // as in endOf
	closed     bool   // by a ban, which the end is that of
	retryAfter string // retry as a number
	detail     string // of the problem document
	limits     string // the value of RateLimit, if this is the only policy and nothing remains
}

func newPolicy(rule core.Rule) *policy {
	s := rule.Spec()
	p := &policy{rule: rule, visible: !s.Shadow && rule.Limit() != core.Unlimited, client: cmp.Or(s.Label, s.Name), unit: cmp.Or(s.Unit, "requests")}
	name := appendString(nil, p.client)
	p.name = string(name)
	p.limit = p.name + ";r="
	p.places = rule.Kind().Holds && rule.Limit() != core.Blocked
	p.quota = rule.Kind().Calendar
	member := append(name, ";q="...)
	member = appendInteger(member, int64(rule.Capacity()))
	unit := p.unit
	if p.places && (!s.ByCost || unit == "requests") {
		unit = "concurrent-requests"
	}
	member = append(member, quotaUnits[unit]...)
	if w := fillTime(rule); w >= time.Second {
		member = append(member, ";w="...)
		member = appendInteger(member, seconds(w))
	}
	if p.member = string(member); s.Rollover == 0 {
		p.denials = make([]atomic.Pointer[denialTexts], 64)
	}
	return p
}

// denial returns the texts about a denial with this Retry-After and endOf. closed says whether a ban has denied. It remembers
// some of them.
func (p *policy) denial(retry, end int64, closed bool) *denialTexts {
	size := uint64(len(p.denials))
	if size == 0 {
		return p.newDenial(retry, end, closed)
	}
	slot := &p.denials[uint64(retry)%size]
	t := slot.Load()
	if t == nil || t.retry != retry || t.end != end || t.closed != closed {
		t = p.newDenial(retry, end, closed)
		slot.Store(t)
	}
	return t
}

func (p *policy) newDenial(retry, end int64, closed bool) *denialTexts {
	n := strconv.FormatInt(retry, 10)
	return &denialTexts{retry, end, closed, n, p.describe(retry, end, closed), p.limit + "0;t=" + n}
}

// endOf returns the end of the block or ban, or of a wait above a day, of s, which denied, in Unix seconds, rounded up, or
// zero for other denials. now is the clock of the Store. The ends of blocks and periods are whole milliseconds, so that
// the time since the decision, usually some microseconds, does not count. The end of a pause is not: texts about it may
// differ by a second.
func endOf(s *core.State, now func() time.Time) int64 {
	if s.RetryAfter == core.Never || !closes(s) && s.RetryAfter <= 24*time.Hour {
		return 0
	}
	return (clockOf(s, now)().Add(s.RetryAfter).UnixMilli() + 999) / 1000
}

// closes reports whether a block denies, or a ban that lasts longer than the limit.
func closes(s *core.State) bool { return s.Limit() == core.Blocked || banned(s) }

func banned(s *core.State) bool { return s.Ban > 0 && s.Ban == s.RetryAfter }

// laterEnd returns the endOf of s for a Retry-After that [Jitter] has made longer by jitter, in seconds. A block or ban
// ends when it ends.
func laterEnd(s core.State, now func() time.Time, jitter int64) int64 {
	if s.Estimate {
		s.RetryAfter = 0
	}
	if !closes(&s) {
		s.RetryAfter += time.Duration(jitter) * time.Second
	}
	return endOf(&s, now)
}

// clockOf returns the clock of the times of s: now, that of the Store, or that of this process, by which a block ends.
func clockOf(s *core.State, now func() time.Time) func() time.Time {
	if s.Limit() == core.Blocked {
		return time.Now
	}
	return now
}

// fillTime returns the time in which the whole capacity of a rule is restored, rounded up. For
// windows and logs it is the period. It is zero for a limit that is never charged. core.New rejects
// rules whose time is more than 100 years.
func fillTime(rule core.Rule) time.Duration {
	l := rule.Limit()
	if l.Per == 0 { // Unlimited, Blocked, InFlight or Quota
		return 0
	}
	if !rule.Kind().Refills {
		return l.Per
	}
	hi, lo := bits.Mul64(uint64(rule.Capacity()), uint64(l.Per))
	d, rem := bits.Div64(hi, lo, uint64(l.Events))
	if rem > 0 {
		d++
	}
	return time.Duration(d)
}

// policies holds the policies of the rules of a gate.
type policies struct {
	first  []*policy // of the rules that the limiters had first, without a plan, in the order of States
	places bool      // one of these rules is in flight
	// others has the policies of rules that a plan, a variant, a step of an elastic rule or
	// core.Limiter.Replace has put in force. Variants and replaced rules may be many.
	others memo.Map[core.Rule, *policy]
}

func newPolicies() *policies {
	p := new(policies)
	p.others.Max = maxPolicies
	return p
}

// maxPolicies is the number of policies in policies.others.
const maxPolicies = 1024

// of returns the policy of rule, which was in force for the i-th State.
func (p *policies) of(i int, rule core.Rule) *policy {
	if i < len(p.first) && p.first[i].rule == rule {
		return p.first[i]
	}
	if rule.Kind().Calendar && rule.Spec().Rollover > 0 {
		return newPolicy(rule) // a rest makes a rule for one decision
	}
	return p.others.Get(rule, newPolicy)
}
