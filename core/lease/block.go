package lease

import (
	"cmp"
	"slices"

	"github.com/weir-go/weir/core"
)

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
	broken bool  // some of them went back to the Store before
	front  int64 // the slots from here ...
	limit  int64 // ... to here are left
	holes  []hole
}

// A hole is slots below the front that came back. They are in order.
type hole struct{ first, limit int64 }

// maxHoles bounds the holes of a block; what comes back beyond goes to the Store.
const maxHoles = 64

// A taken says which slots were spent here.
type taken struct {
	pieces int    // in how many they were
	serial uint64 // of the block of one
	first  int64
	mark   core.Mark

	watched bool   // none was taken, and the answer of the Store is of interest
	changes uint64 // of the cell, then
}

// melted is where the slots begin that are still worth something.
func (b *block) melted(m *meter, now int64) int64 { return m.refill(micros(now - b.asked)) }

// rest is how many tokens from the front on have not melted.
func (b *block) rest(m *meter, now int64) int64 {
	return m.tokens(hole{b.front, b.limit}, b.melted(m, now))
}

// tokens is how many of h are left from melted on.
func (m *meter) tokens(h hole, melted int64) int64 {
	return max(0, h.limit-max(h.first, melted)) / m.unit
}

// held is how many tokens can be spent.
func (b *block) held(m *meter, now int64) int64 {
	if now >= b.ends {
		return 0
	}
	melted := b.melted(m, now)
	n := m.tokens(hole{b.front, b.limit}, melted)
	for _, h := range b.holes {
		n += m.tokens(h, melted)
	}
	return n
}

// spend takes n tokens, which are held: in one piece if there is one, holes first.
func (b *block) spend(m *meter, now, n int64) taken {
	melted := b.melted(m, now)
	for i, h := range b.holes {
		if m.tokens(h, melted) >= n {
			return b.fill(m, i, melted, n)
		}
	}
	if b.rest(m, now) >= n || len(b.holes) == 0 {
		return b.advance(m, melted, n)
	}
	var t taken
	for n > 0 && len(b.holes) > 0 {
		k := min(n, m.tokens(b.holes[0], melted))
		if k == 0 {
			b.holes = b.holes[1:]
			continue
		}
		t = t.with(m, b.fill(m, 0, melted, k))
		n -= k
	}
	if n > 0 {
		t = t.with(m, b.advance(m, melted, n))
	}
	return t
}

// fill takes n tokens of hole i.
func (b *block) fill(m *meter, i int, melted, n int64) taken {
	h := &b.holes[i]
	first := max(h.first, melted)
	if h.first = first + n*m.unit; h.limit-h.first < m.unit {
		b.holes = append(b.holes[:i], b.holes[i+1:]...)
	}
	return b.slots(m, first)
}

// advance takes n tokens from the front.
func (b *block) advance(m *meter, melted, n int64) taken {
	first := max(b.front, melted)
	b.front = first + n*m.unit
	return b.slots(m, first)
}

func (b *block) slots(m *meter, first int64) taken {
	return taken{pieces: 1, serial: b.serial, first: first, mark: core.Mark{At: b.at, Used: m.span(first), Origin: b.origin}}
}

// with is t and other slots, as far as they are to be given back: all of them are taken
// to begin where the first of them does.
func (t taken) with(m *meter, other taken) taken {
	if t.pieces == 0 {
		return other
	}
	t.pieces += other.pieces
	if m.flow > 0 {
		t.first = min(t.first, max(0, other.first+(other.mark.At-t.mark.At)*m.flow))
		t.mark.Used = m.span(t.first)
	}
	return t
}

// unspend puts n tokens that were spent as t back where they were, if they can be spent
// there still.
func (b *block) unspend(m *meter, now, n int64, t taken) bool {
	melted := b.melted(m, now)
	for len(b.holes) > 0 && m.tokens(b.holes[0], melted) == 0 {
		b.holes = b.holes[1:]
	}
	switch {
	case t.pieces != 1 || t.serial != b.serial || now >= b.ends || melted > t.first:
		return false
	case m.flow == 0: // one event of a window is as good as another
		b.front -= n
	case b.front == t.first+n*m.unit:
		b.front = t.first
	case len(b.holes) < maxHoles:
		i, _ := slices.BinarySearchFunc(b.holes, t.first, func(h hole, first int64) int { return cmp.Compare(h.first, first) })
		b.holes = slices.Insert(b.holes, i, hole{t.first, t.first + n*m.unit})
	default:
		return false
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

// owed is what to tell the Store to give back n tokens from the slot at t on.
//
// Giving back moves the Store's instant back, and with it, in effect, all slots above
// those that come back. Who holds one of those does not know. So a slot comes back
// only if it begins later than the guard from then on: whoever holds a slot above has
// spent it or given it up before. It is the Store that sees to it, by its own clock,
// for the mark says that the slots were taken that much earlier.
//
// For the same reason the slots that come back may begin earlier than they did: others
// have given back what was below. But they heeded the guard, so what was taken at a
// time begins no earlier than the guard after that, if it did not at once. That goes for
// whole, the first slot of all that moves together: those from there to t are one piece.
func (t *taken) owed(m *meter, key string, n, whole int64) debt {
	moved := max(0, whole-m.refill(m.guard))
	return debt{&m.rule, key, n, core.Mark{At: t.mark.At - m.guard, Used: m.span(t.first - moved), Origin: t.mark.Origin}}
}
