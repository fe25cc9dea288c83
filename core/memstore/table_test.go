package memstore

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"unsafe"
)

// A table behaves as a map under any mixture of inserts and removals.
func TestTable_RandomInsertsAndRemovals(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var tab table[int]
	want := make(map[uint64]int)
	alive := func(*int) bool { return false }
	for i := range 300_000 {
		hash := 1 + rng.Uint64N(2000)*0x9e3779b97f4a7c15
		if hash == 0 {
			continue
		}
		switch v := tab.find(hash); {
		case rng.IntN(2) == 0:
			if v == nil {
				v = tab.insert(hash, alive)
			}
			*v, want[hash] = i, i
		default:
			tab.remove(hash)
			delete(want, hash)
		}
		if tab.used != len(want) {
			t.Fatalf("step %d: got %d in use, expected %d", i, tab.used, len(want))
		}
	}
	for hash := range uint64(2000) {
		hash = 1 + hash*0x9e3779b97f4a7c15
		v, ok := want[hash]
		if got := tab.find(hash); (got != nil) != ok || ok && *got != v {
			t.Fatalf("hash %x: got %v, expected %d, %v", hash, got, v, ok)
		}
	}
}

func TestTable_NextSample_VisitsEverySlot(t *testing.T) {
	for _, size := range []int{1, 3, 8, 18, 100, 1001, 11_713} {
		tab := table[int]{slots: make([]slot[int], size)}
		for range 5 {
			seen := make(map[*slot[int]]bool)
			for range 2*size + 8 {
				seen[tab.nextSample()] = true
			}
			if len(seen) != size {
				t.Errorf("a round visits %d slots, expected %d", len(seen), size)
			}
		}
	}
}

func TestTable_Rebuild_DropsDeadValues(t *testing.T) {
	var tab table[int]
	odd := func(v *int) bool { return *v%2 == 1 }
	for i := range 10_000 {
		*tab.insert(uint64(i+1)*0x9e3779b97f4a7c15, odd) = i
	}
	for i := 0; i < 10_000; i += 2 {
		if tab.find(uint64(i+1)*0x9e3779b97f4a7c15) == nil {
			t.Fatalf("got no value %d, expected it", i)
		}
	}
	if len(tab.slots) > 20_000 {
		t.Errorf("got %d slots for 5000 values, expected at most 20 000", len(tab.slots))
	}
}

// The constants are the sizes of the slots. On 32-bit platforms slots are smaller.
func TestValue_Weight_SizeOfSlot(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want int
	}{
		{"bucket", (*bucket)(nil).size(), int(unsafe.Sizeof(slot[bucket]{}))},
		{"item", new(item).size(), int(unsafe.Sizeof(slot[item]{}))},
	} {
		if c.got < c.want || c.got > c.want && strconv.IntSize == 64 {
			t.Errorf("%s: got %d bytes, expected %d", c.name, c.got, c.want)
		}
	}
}

func TestTable_Shrink_FillStaysAboveTwoThirds(t *testing.T) {
	var tab table[int]
	alive := func(*int) bool { return false }
	key := func(i int) uint64 { return uint64(i+1) * 0x9e3779b97f4a7c15 }
	const n = 10_000
	for i := range n {
		*tab.insert(key(i), alive) = i
	}
	moved, size := 0, len(tab.slots)
	for i := range n {
		tab.remove(key(i))
		if len(tab.slots) != size {
			moved, size = moved+tab.used, len(tab.slots)
		}
		if bound := tab.used*3/2 + spareSlots; len(tab.slots) > bound {
			t.Fatalf("got %d slots for %d values, expected at most %d", len(tab.slots), tab.used, bound)
		}
		if i+1 < n && tab.find(key(i+1)) == nil {
			t.Fatalf("got no value %d, expected it", i+1)
		}
	}
	if moved > 10*n {
		t.Errorf("%d removals moved %d values to smaller tables, expected at most %d", n, moved, 10*n)
	}
}
