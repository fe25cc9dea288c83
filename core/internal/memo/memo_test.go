package memo

import (
	"sync"
	"testing"
)

func size[K comparable, V any](m *Map[K, V]) (n int) {
	m.values.Range(func(any, any) bool { n++; return true })
	return n
}

func TestMap_Get(t *testing.T) {
	m := Map[int, int]{Max: 3}
	computed := 0
	double := func(k int) int { computed++; return 2 * k }
	for i, c := range []struct{ key, computed, size int }{
		{1, 1, 1}, {1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {1, 3, 3}, {4, 4, 1}, {1, 5, 2}, {4, 5, 2},
	} {
		if v := m.Get(c.key, double); v != 2*c.key || computed != c.computed || size(&m) != c.size {
			t.Errorf("call %d: got %d, %d computed, %d remembered; want %d, %d, %d", i, v, computed, size(&m), 2*c.key, c.computed, c.size)
		}
	}
}

func TestMap_Get_Concurrent(t *testing.T) {
	m := Map[int, int]{Max: 10}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := range 10_000 {
				if k := i % 31; m.Get(k, func(k int) int { return -k }) != -k {
					t.Errorf("got another value than that of key %d", k)
				}
			}
		})
	}
	wg.Wait()
	if n := size(&m); n > 10+16 {
		t.Errorf("got %d keys, want 10 and at most one for each goroutine", n)
	}
}

func TestMap_Get_Allocations(t *testing.T) {
	m, key := Map[*int, []any]{Max: 10}, new(int)
	compute := func(*int) []any { return []any{1, 2} }
	m.Get(key, compute)
	if n := testing.AllocsPerRun(100, func() { m.Get(key, compute) }); n != 0 {
		t.Errorf("a lookup allocates %v times, want 0", n)
	}
}
