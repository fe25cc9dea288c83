package lease

import "github.com/weir-go/weir/core/driver"

// A block is some leased tokens of one rule of one key; the zero block holds none.
//
// The state of a bucket is the instant at which the bucket is full. Taking n tokens moves
// that instant by n units. So whoever takes them owns n slots of virtual time, one unit
// long, that nobody else owns. A slot lies at most a burst ahead of the moment of its lease.
// A token may be spent until its slot begins, and expires then. So any two events have
// slots that do not overlap, and each event lies at most a burst before the end of its
// slot: in a span T no more slots end than Burst + rate x T, and no more events are
// admitted. A token that expires is no loss to the bucket, which has refilled by as much.
//
// A block with n tokens says this about them: sorted by their slots, the slot of token i
// begins at begin + i units or later. For the tokens of one lease that holds because their
// slots are adjacent. It stays true
//   - when k tokens are spent: they are the first k, so begin moves by k units;
//   - when tokens expire: they are the first ones, too;
//   - when two blocks are joined, with the smaller of the two begins: no slot begins
//     earlier, and slots do not overlap, so the slot of token i begins i units later.
//
// So tokens that a denied decision took go back into a block by joining them.
//
// Tokens of a fixed window have no slots. They expire with their window.
type block struct {
	at      int64 // when the Store leased the tokens, by the Store's clock (us)
	asked   int64 // before that, by the clock of this process (ns)
	expires int64 // when all tokens expire (ns)
	origin  int   // of the receipt

	begin int64 // lower bound of the beginning of the first slot, in units after at
	end   int64 // begin and a unit for each token
}

// age returns the microseconds since the lease, rounded up, and 1 in 1000 more: the clock
// of the Store may be faster than the clock of this process.
func (b *block) age(now int64) int64 { return micros(now - b.asked + (now-b.asked)/driftFraction) }

// driftFraction is the part of a lease by which the two clocks may drift apart.
const driftFraction = 1000

// refilled returns the units that have refilled since the lease: slots before that have begun.
func (b *block) refilled(u *units, now int64) int64 { return u.refill(b.age(now)) }

// tokens returns the number of tokens, with those that have expired.
func (b *block) tokens(u *units) int64 { return (b.end - b.begin) / u.unit }

// held returns the number of tokens that can be spent.
func (b *block) held(u *units, now int64) int64 {
	if now >= b.expires {
		return 0
	}
	return max(0, b.end-max(b.begin, b.refilled(u, now))) / u.unit
}

// spend removes and returns n tokens, which are held.
func (b *block) spend(u *units, now, n int64) block {
	b.begin = max(b.begin, b.refilled(u, now))
	return b.split(u, n)
}

// split removes and returns the first n tokens, whether they have expired or not.
func (b *block) split(u *units, n int64) block {
	t := *b
	t.end = t.begin + n*u.unit
	b.begin = t.end
	return t
}

// join adds the tokens of t.
func (b *block) join(u *units, t block) {
	n, more := b.tokens(u), t.tokens(u)
	switch {
	case more == 0:
		return
	case n == 0:
		*b = t
		return
	}
	later := floorDiv(t.asked-b.asked, 1000)
	b.begin = min(b.begin, t.begin+later*u.rate)
	b.end = b.begin + (n+more)*u.unit
	b.expires = min(b.expires, t.expires)
}

// trim drops the tokens that have expired.
func (b *block) trim(u *units, now int64) {
	b.begin = max(b.begin, b.refilled(u, now))
	if now >= b.expires || b.begin+u.unit > b.end {
		*b = block{}
	}
}

// receipt returns the receipt of a charge of the tokens.
func (b *block) receipt(u *units) driver.Receipt {
	return driver.Receipt{At: b.at, Used: u.span(b.begin), Origin: b.origin}
}
