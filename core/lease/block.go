package lease

import "github.com/weir-go/weir/core"

// A block is what is left of a lease.
//
// The state of a bucket is the instant at which it is full. Taking n tokens moves it
// by n units, so that the taker owns n slots of time. A token may be spent until its
// slot begins: any two events then have slots of their own, none later than a burst
// after its event, so that no span T ever sees more than Burst + rate x T. A token
// whose slot has begun is one that the bucket would have refilled by now, had it not
// been taken, and is worth nothing. So the slots of a block are spent from the front,
// and melt from the front. Those of a window do not melt; it ends.
type block struct {
	serial uint64 // no other block of the process has it; zero is no block
	at     int64  // when the Store gave it, by its clock (us)
	origin int    // of the mark
	asked  int64  // before that, by the clock here (ns)
	ends   int64  // when it goes back
	over   int64  // when its window has ended for sure

	bottom int64 // where the slots of the whole lease began, from at on
	front  int64 // the slots from here ...
	limit  int64 // ... to here are left
	undone int64 // of those before front, how many came back that were not the last
}

// A taken says which slots were spent here.
type taken struct {
	serial uint64 // of the block; zero if they were of more than one, or of none
	first  int64
	bottom int64
	mark   core.Mark

	watched bool   // none was taken, and the answer of the Store is of interest
	changes uint64 // of the cell, then
}

// begin is where the slots begin that are still worth something.
func (b *block) begin(m *meter, now int64) int64 {
	return max(b.front, m.refill(micros(now-b.asked)))
}

// left is how many tokens have not been spent and not melted.
func (b *block) left(m *meter, now int64) int64 {
	return max(0, b.limit-b.begin(m, now)) / m.unit
}

// held is how many tokens can be spent.
func (b *block) held(m *meter, now int64) int64 {
	if now >= b.ends {
		return 0
	}
	return b.left(m, now)
}

// spend takes n tokens, which are held.
func (b *block) spend(m *meter, now, n int64) taken {
	first := b.begin(m, now)
	b.front = first + n*m.unit
	return b.slots(m, first)
}

func (b *block) slots(m *meter, first int64) taken {
	return taken{
		serial: b.serial, first: first, bottom: b.bottom,
		mark: core.Mark{At: b.at, Used: m.span(first), Origin: b.origin},
	}
}

// unspend takes back n tokens that were spent as t. Events that were spent above them
// have, in effect, slots that are lower by so much, as these may have by what came back
// before. None of those slots is earlier than the first, and if that has not begun, none
// of the events is later.
func (b *block) unspend(m *meter, now, n int64, t taken) bool {
	last := b.front == t.first+n*m.unit
	switch {
	case t.serial == 0 || t.serial != b.serial || now >= b.ends:
		return false
	case m.flow > 0 && m.refill(micros(now-b.asked)) > t.first-b.undone:
		return false
	}
	if b.front -= n * m.unit; !last {
		b.undone += n * m.unit
	}
	return true
}

// A debt is what goes back to the Store.
type debt struct {
	rule *core.Rule
	key  string
	n    int64
	mark core.Mark
}

// owed is what to tell the Store to give back n tokens from first on.
//
// Giving back moves the Store's instant back, and with it, in effect, all slots above
// those that come back. Who holds one of those does not know. So a slot comes back
// only if it begins later than the guard from then on: whoever holds a slot above has
// spent it or given it up before. It is the Store that sees to it, by its own clock,
// for the mark says that the slots were taken that much earlier.
//
// For the same reason the slots that come back may begin earlier than they did: others
// have given back what was below. But they heeded the guard, so what was taken at a
// time begins no earlier than the guard after that, if it did not at once.
func (t *taken) owed(m *meter, key string, n int64) debt {
	moved := max(0, t.bottom-m.refill(m.guard))
	return debt{&m.rule, key, n, core.Mark{At: t.mark.At - m.guard, Used: m.span(t.first - moved), Origin: t.mark.Origin}}
}
