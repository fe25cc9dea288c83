package memstore

import "math/bits"

// A table is an open-addressing hash table from 64-bit hashes to values, with linear probing. Its
// size is any number, not a power of two, so that it grows and shrinks in small steps: between two
// thirds and seven eighths of the slots are in use, except in a table of a few slots. A value in a
// slot of 24 bytes therefore takes 28 to 36 bytes of memory. Hash 0 marks a free slot and must
// not be inserted.
type table[V any] struct {
	slots   []slot[V]
	used    int
	sampled uint64 // the number of calls of nextSample
}

type slot[V any] struct {
	hash  uint64
	value V
}

// mix returns a hash of two words that is never 0, the mark of a free slot.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xbf58476d1ce4e5b9)
	return max(1, hi^lo)
}

// home returns the slot at which the probing for hash begins.
func (t *table[V]) home(hash uint64) int {
	hi, _ := bits.Mul64(hash, uint64(len(t.slots)))
	return int(hi)
}

func (t *table[V]) next(i int) int {
	if i++; i == len(t.slots) {
		return 0
	}
	return i
}

// find returns the value of hash, or nil if there is none or hash is 0. The pointer is valid until
// the next insert or remove.
func (t *table[V]) find(hash uint64) *V {
	if len(t.slots) == 0 {
		return nil
	}
	for i := t.home(hash); ; i = t.next(i) {
		switch s := &t.slots[i]; s.hash {
		case 0:
			return nil
		case hash:
			return &s.value
		}
	}
}

// insert adds hash, which must not be in the table. A full table drops its dead values before it
// grows.
func (t *table[V]) insert(hash uint64, dead func(*V) bool) *V {
	if t.used >= len(t.slots)-len(t.slots)/8 {
		t.rebuild(dead)
	}
	t.used++
	s := t.free(hash)
	s.hash = hash
	return &s.value
}

// free returns the free slot for hash, which is not in the table.
func (t *table[V]) free(hash uint64) *slot[V] {
	i := t.home(hash)
	for t.slots[i].hash != 0 {
		i = t.next(i)
	}
	return &t.slots[i]
}

// rebuild drops dead values. Then it makes the table larger if it is at least seven tenths full,
// and smaller if it is less than two thirds full.
func (t *table[V]) rebuild(dead func(*V) bool) {
	for i := 0; i < len(t.slots); {
		if s := &t.slots[i]; s.hash != 0 && dead(&s.value) {
			t.drop(s.hash) // another value may move into the slot
		} else {
			i++
		}
	}
	if t.used >= len(t.slots)*7/10 {
		t.resize(t.used + t.used*3/7 + 8)
	} else {
		t.shrink()
	}
}

// shrink makes the table smaller if it is less than two thirds full. Between two shrinks, at least
// an eighth of the values are removed, so a removal moves nine other values on average.
func (t *table[V]) shrink() {
	if len(t.slots) > t.used+t.used/2+spareSlots {
		t.resize(t.used + t.used/3 + 8)
	}
}

// spareSlots is the number of free slots that a table may have in addition to a third of its slots.
const spareSlots = 16

func (t *table[V]) resize(size int) {
	old := t.slots
	t.slots = make([]slot[V], size)
	for i := range old {
		if old[i].hash != 0 {
			*t.free(old[i].hash) = old[i]
		}
	}
}

// nextSample returns the next slot to compare for eviction. It walks over short groups of adjacent
// slots, which follow each other in a sequence that covers the table evenly (multiples of the
// golden ratio). After 2*len(slots) calls it has returned every slot. If it walked from one end of
// the table to the other, eviction would leave a part of the table full, where searches are long.
func (t *table[V]) nextSample() *slot[V] {
	const group = 4
	i, _ := bits.Mul64(t.sampled/group*0x9e3779b97f4a7c15, uint64(len(t.slots)))
	if i += t.sampled % group; i >= uint64(len(t.slots)) {
		i = 0
	}
	t.sampled++
	return &t.slots[i]
}

// remove deletes hash, if it is in the table.
func (t *table[V]) remove(hash uint64) {
	t.drop(hash)
	t.shrink()
}

// drop deletes hash, and does not change the size of the table. It moves the values that follow
// into the gap, so that probing needs no tombstones.
func (t *table[V]) drop(hash uint64) {
	if len(t.slots) == 0 {
		return
	}
	i := t.home(hash)
	for t.slots[i].hash != hash {
		if t.slots[i].hash == 0 {
			return
		}
		i = t.next(i)
	}
	t.used--
	empty := i
	for i = t.next(i); t.slots[i].hash != 0; i = t.next(i) {
		// The value in slot i may move to slot empty, unless its home is i or between empty and i.
		if t.distance(t.home(t.slots[i].hash), i) >= t.distance(empty, i) {
			t.slots[empty] = t.slots[i]
			empty = i
		}
	}
	t.slots[empty] = slot[V]{}
}

// distance returns the number of steps from slot i to slot j, which may lead past the end of the
// table.
func (t *table[V]) distance(i, j int) int {
	if j < i {
		j += len(t.slots)
	}
	return j - i
}
