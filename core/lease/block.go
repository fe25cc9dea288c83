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
// begins at front + i units or later. For the tokens of one lease that holds because their
// slots are adjacent. It stays true
//   - when k tokens are spent: they are the first k, so front moves by k units;
//   - when tokens expire: they are the first ones, too;
//   - when two blocks are joined, with the smaller of the two fronts: no slot begins
//     earlier, and slots do not overlap, so the slot of token i begins i units later.
//
// So tokens that a denied decision took go back into a block by joining them.
//
// Tokens of a fixed window have no slots. They expire with their window.
type block struct {
	at     int64 // when the store leased the tokens, by the store's clock (us)
	asked  int64 // before that, by the clock of this process (ns)
	ends   int64 // when all tokens expire (ns)
	origin int   // of the receipt

	front int64 // where the first slot begins, at the earliest, from at on
	limit int64 // front and a unit for each token
}

// age returns the microseconds since the lease, rounded up, and 1 in 1000 more: the clock
// of the store may be faster than the clock of this process.
func (b *block) age(now int64) int64 { return micros(now - b.asked + (now-b.asked)/driftShare) }

// driftShare is the part of a lease by which the two clocks may drift apart.
const driftShare = 1000

// expired returns where the slots begin that have not begun.
func (b *block) expired(m *meter, now int64) int64 { return m.refill(b.age(now)) }

// tokens returns the number of tokens, with those that have expired.
func (b *block) tokens(m *meter) int64 { return (b.limit - b.front) / m.unit }

// held returns the number of tokens that can be spent.
func (b *block) held(m *meter, now int64) int64 {
	if now >= b.ends {
		return 0
	}
	return max(0, b.limit-max(b.front, b.expired(m, now))) / m.unit
}

// spend takes n tokens, which are held.
func (b *block) spend(m *meter, now, n int64) block {
	b.front = max(b.front, b.expired(m, now))
	return b.split(m, n)
}

// split takes the first n tokens, whether they have expired or not.
func (b *block) split(m *meter, n int64) block {
	t := *b
	t.limit = t.front + n*m.unit
	b.front = t.limit
	return t
}

// join adds the tokens of t.
func (b *block) join(m *meter, t block) {
	n, more := b.tokens(m), t.tokens(m)
	switch {
	case more == 0:
		return
	case n == 0:
		*b = t
		return
	}
	later := floorDiv(t.asked-b.asked, 1000)
	b.front = min(b.front, t.front+later*m.flow)
	b.limit = b.front + (n+more)*m.unit
	b.ends = min(b.ends, t.ends)
}

// trim drops the tokens that have expired.
func (b *block) trim(m *meter, now int64) {
	b.front = max(b.front, b.expired(m, now))
	if now >= b.ends || b.front+m.unit > b.limit {
		*b = block{}
	}
}

// receipt returns the receipt of a charge of the tokens.
func (b *block) receipt(m *meter) driver.Receipt {
	return driver.Receipt{At: b.at, Used: m.span(b.front), Origin: b.origin}
}
