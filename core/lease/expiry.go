package lease

// A leased token of a fixed window expires with its window. A leased token of a bucket expires
// as the bucket refills:
//
// The state of a bucket is the instant at which the bucket is full. Taking n tokens moves that
// instant by n units. The process that takes them owns these n spans of virtual time, one unit
// long each, and no other process owns any part of them. A token may be spent until its span
// begins, and expires then; the bucket has refilled by as much, so it loses nothing. A span ends
// at most a burst after the lease.
//
// Therefore no two events share a span, and the spans of an event lie between the event and a burst
// after it. The spans of all events in a time T lie within T and a burst: they are at most
// Burst + rate x T.
//
// A block with n tokens keeps one bound: token i, in the order of the spans, expires at begin +
// i units or later. For the tokens of one lease the bound holds because their spans are
// adjacent. It stays true
//   - when k tokens are spent: they are the first k, so begin moves by k units;
//   - when tokens expire: they are the first ones, too;
//   - when two blocks are joined, with the smaller of the two begins: no span begins
//     earlier, and spans do not overlap, so token i expires i units later.
//
// The last case also returns the tokens of a denied decision to a block.

// driftFraction is the part of a lease by which the clock of the Store behind may be faster than
// the clock of this process.
const driftFraction = 1000

// refilled returns the units that have refilled since the lease, by a clock that may be faster
// than that of this process. Tokens that begin earlier have expired.
func (b *block) refilled(u *units, now int64) int64 {
	age := now - b.asked
	return u.refill(micros(age + age/driftFraction))
}

// held returns the number of tokens that have not expired.
func (b *block) held(u *units, now int64) int64 {
	if now >= b.expires {
		return 0
	}
	return max(0, b.end-max(b.begin, b.refilled(u, now))) / u.unit
}

// expire drops the tokens that have expired.
func (b *block) expire(u *units, now int64) {
	b.begin = max(b.begin, b.refilled(u, now))
	if now >= b.expires || b.begin+u.unit > b.end {
		*b = block{}
	}
}
