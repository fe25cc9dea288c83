package lease

// A leased token of a fixed window expires with its window. A leased token of a bucket expires
// as the bucket refills:
//
// The state of a bucket is the instant at which the bucket is full. Taking n tokens moves that
// instant by n units. The time between the old and the new instant consists of n spans of one unit
// each. They belong to the process that took the tokens, and to no other process. A token expires
// when its span begins. During the span, the bucket refills the token, so no capacity is lost. A
// span ends at most one fill time of the bucket after the lease.
//
// Therefore no two events share a span, and the spans of an event lie within one fill time after
// the event. The spans of all events in a time T lie in an interval of length T + fill time, so
// there are at most Burst + rate x T of them.
//
// The unit is one fill time divided by the Burst of the plan, and plans of one length have the same
// fill time. The spans of the events of all plans are therefore at most T + fill time long
// together, so the sum over the plans of events/Burst is at most 1 + T/fill time. (If the units of
// two plans have different denominators, the Store reads a state of the other plan with an error
// below a microsecond.)
//
// A bundle with n tokens stores one bound: token i, in the order of the spans, expires at begin +
// i units or later. For the tokens of one lease the bound holds because their spans are
// adjacent. It stays true
//   - when k tokens are spent: they are the first k, so begin moves by k units;
//   - when tokens expire: they are the first ones, too;
//   - when two bundles are joined and the smaller value of begin is kept: no span begins before
//     this value, and spans do not overlap, so token i expires i units after it, or later.
//
// The tokens of a denied decision are returned by joining them to a bundle, as in the last case.

// driftFraction bounds the difference between two clocks: while a lease lasts, the clock of the
// Store behind may run faster than the clock of this process by up to 1/driftFraction.
const driftFraction = 1000

// refilled returns the units that have refilled since the lease by the fastest possible clock of
// the Store. A token has expired if its span begins at a smaller number of units than the result.
func (b *bundle) refilled(u *units, now int64) int64 {
	age := now - b.asked
	return u.refill(micros(age + age/driftFraction))
}

// held returns the number of tokens that have not expired.
func (b *bundle) held(u *units, now int64) int64 {
	if now >= b.expires || b.end-b.begin < u.unit {
		return 0
	}
	return max(0, b.end-max(b.begin, b.refilled(u, now))) / u.unit
}

// expire drops the tokens that have expired.
func (b *bundle) expire(u *units, now int64) {
	b.begin = max(b.begin, b.refilled(u, now))
	if now >= b.expires || b.begin+u.unit > b.end {
		*b = bundle{}
	}
}
