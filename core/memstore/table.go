package memstore

import "math/bits"

// A table is an open-addressing hash table from 64-bit hashes to values, with
// linear probing. Its size is any number, not a power of two, so that it grows
// in small steps and stays full: 24-byte slots cost 28 to 35 bytes a key.
//
// Hash 0 marks a free slot; callers never use it.
type table[V any] struct {
	slots []slot[V]
	used  int
	hand  int // where the next search for a victim goes on
}

type slot[V any] struct {
	hash  uint64
	value V
}

// home is the slot at which the probing for hash begins.
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

// find returns the value of hash, or nil. The pointer is good until the next
// insert or remove.
func (t *table[V]) find(hash uint64) *V {
	if len(t.slots) == 0 {
		return nil
	}
	for i := t.home(hash); ; i = t.next(i) {
		switch s := &t.slots[i]; s.hash {
		case hash:
			return &s.value
		case 0:
			return nil
		}
	}
}

// insert makes room for hash, which must not be in the table. When the table is
// full, what is dead is dropped first.
func (t *table[V]) insert(hash uint64, dead func(*V) bool) *V {
	if t.used >= len(t.slots)-len(t.slots)/8 {
		t.rebuild(dead)
	}
	t.used++
	s := t.free(hash)
	s.hash = hash
	return &s.value
}

// free is the slot where hash, which is not in the table, belongs.
func (t *table[V]) free(hash uint64) *slot[V] {
	i := t.home(hash)
	for t.slots[i].hash != 0 {
		i = t.next(i)
	}
	return &t.slots[i]
}

// rebuild drops what is dead, and changes the size if the rest fills more than
// seven tenths of it or less than a quarter.
func (t *table[V]) rebuild(dead func(*V) bool) {
	for i := 0; i < len(t.slots); {
		if s := &t.slots[i]; s.hash != 0 && dead(&s.value) {
			t.remove(s.hash) // what moves into the slot is looked at next
		} else {
			i++
		}
	}
	if size := len(t.slots); t.used >= size*7/10 || t.used < size/4 {
		t.resize(t.used + t.used*3/7 + 8)
	}
}

func (t *table[V]) resize(size int) {
	old := t.slots
	t.slots = make([]slot[V], size)
	t.hand = 0
	for i := range old {
		if old[i].hash != 0 {
			*t.free(old[i].hash) = old[i]
		}
	}
}

// look shows the next n slots that are in use, or all if there are fewer, going
// round from where the last look ended, until stop.
func (t *table[V]) look(n int, stop func(hash uint64, v *V) bool) {
	for range len(t.slots) {
		if n == 0 {
			return
		}
		if t.hand = t.hand + 1; t.hand >= len(t.slots) {
			t.hand = 0
		}
		if s := &t.slots[t.hand]; s.hash != 0 {
			n--
			if stop(s.hash, &s.value) {
				return
			}
		}
	}
}

// remove forgets hash. The slots behind it move up, so that probing needs no
// tombstones.
func (t *table[V]) remove(hash uint64) {
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
	hole := i
	for i = t.next(i); t.slots[i].hash != 0; i = t.next(i) {
		// A slot may move into the hole unless its home lies between the two.
		if distance(t.home(t.slots[i].hash), i, len(t.slots)) >= distance(hole, i, len(t.slots)) {
			t.slots[hole] = t.slots[i]
			hole = i
		}
	}
	t.slots[hole] = slot[V]{}
}

// distance is how far to is behind from, going round.
func distance(from, to, size int) int {
	if to < from {
		to += size
	}
	return to - from
}
