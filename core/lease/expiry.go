package lease

// A leased token of a fixed window expires with its window. A leased token of a bucket expires
// as the bucket refills:
//
// The state of a bucket is the instant at which the bucket is full. Taking n tokens moves
// that instant by n units, so the process that takes them owns n slots of virtual time, one
// unit long, that no other process owns. A slot lies at most a burst ahead of the moment of its
// lease. A token may be spent until its slot begins, and expires then. So any two events have
// slots that do not overlap, and each event lies at most a burst before the end of its
// slot: in a span T no more slots end than Burst + rate x T, and no more events are
// admitted. A token that expires is no loss to the bucket, which has refilled by as much.
//
// A block with n tokens keeps one bound: sorted by their slots, the slot of token i begins at
// begin + i units or later. For the tokens of one lease that holds because their slots are
// adjacent. It stays true
//   - when k tokens are spent: they are the first k, so begin moves by k units;
//   - when tokens expire: they are the first ones, too;
//   - when two blocks are joined, with the smaller of the two begins: no slot begins
//     earlier, and slots do not overlap, so the slot of token i begins i units later.
//
// So tokens that a denied decision took are returned to a block by joining them.

// driftFraction is the part of a lease by which the clock of the Store behind and the clock of
// this process may drift apart.
const driftFraction = 1000

// age returns the microseconds since the lease, rounded up, and 1 in 1000 more: the clock
// of the Store may be faster than the clock of this process.
func (b *block) age(now int64) int64 { return micros(now - b.asked + (now-b.asked)/driftFraction) }

// refilled returns the units that have refilled since the lease: slots before that have begun.
func (b *block) refilled(u *units, now int64) int64 { return u.refill(b.age(now)) }

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
