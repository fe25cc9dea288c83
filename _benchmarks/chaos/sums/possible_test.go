package main

import (
	"slices"
	"testing"
	"time"
)

func TestPossible(t *testing.T) {
	p := newPossible()
	check := func(want string, sums ...int) {
		t.Helper()
		var got []int
		for n := -30; n <= 30; n++ {
			if p.has(n) {
				got = append(got, n)
			}
		}
		if !slices.Equal(got, sums) || p.low != sums[0] || p.high() != sums[len(sums)-1] || p.exact() != (len(sums) == 1) || p.String() != want {
			t.Errorf("got %d, from %d to %d, exact %v, as text %q, want %d and %q", got, p.low, p.high(), p.exact(), &p, sums, want)
		}
	}
	check("0", 0)
	p.add(4)
	check("4", 4)
	p.add(0, 5)
	check("4, 9", 4, 9)
	p.add(-2)
	check("2, 7", 2, 7)
	p.add(0, -1, -4)
	check("-2, 1 to 3, 6 to 7", -2, 1, 2, 3, 6, 7)
	p.add(0)
	p.add(0, 0)
	check("-2, 1 to 3, 6 to 7", -2, 1, 2, 3, 6, 7)
}

// A refund frees the newest charges first, and none whose operation failed.
func TestHeld_reduce(t *testing.T) {
	h := &held{charges: []charge{{cost: 3}, {cost: 4, failed: true}, {cost: 2}}}
	for _, c := range []struct {
		n     int
		steps []int
		left  int
	}{{1, []int{1}, 8}, {3, []int{1, 0}, 5}, {4, []int{0, 2}, 1}, {0, nil, 1}, {1, []int{1}, 0}, {0, nil, 0}} {
		if got := h.reduce(c.n); !slices.Equal(got, c.steps) || h.cost() != c.left {
			t.Errorf("by %d: got the steps %d and %d left, want %d and %d", c.n, got, h.cost(), c.steps, c.left)
		}
	}
}

func TestFreed(t *testing.T) {
	for _, c := range []struct {
		steps   []int
		ran     bool
		cost    int
		changes []int
	}{
		{[]int{3}, true, -3, []int{0, -3}},
		{[]int{3}, false, -3, []int{0}},
		{[]int{2, 0, 4}, true, -6, []int{0, -2, -2, -6}},
		{[]int{2, 0, 4}, false, -6, []int{0, -2, -2}},
		{nil, true, 0, []int{0}},
	} {
		if cost, changes := freed(c.steps, c.ran); cost != c.cost || !slices.Equal(changes, c.changes) {
			t.Errorf("%d, %v: got %d, %d, want %d, %d", c.steps, c.ran, cost, changes, c.cost, c.changes)
		}
	}
}

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		name   string
		decode func(any) (int, error)
		value  any
		want   int // -1 for an error
	}{
		{"quota", decodeQuota, "aaaaaaabbbbbbb\x00\x00\x00\x00\x01\x02", 258},
		{"quota", decodeQuota, nil, 0},
		{"quota", decodeQuota, "aaaaaaabbbbbbb\x00\x00\x00\x01\x02", -1},
		{"quota", decodeQuota, map[string]string{}, -1},
		{"sliding window", decodeSlidingWindow, map[string]string{"o": "3", "l": "4", "t": "7", "3": "2", "4": "5"}, 7},
		{"sliding window", decodeSlidingWindow, nil, 0},
		{"sliding window", decodeSlidingWindow, map[string]string{"o": "3", "l": "4", "t": "7", "3": "2", "4": "4"}, -1},
		{"sliding window", decodeSlidingWindow, map[string]string{"o": "3", "l": "4", "t": "x"}, -1},
		{"sliding window", decodeSlidingWindow, "x", -1},
	} {
		got, err := c.decode(c.value)
		if err != nil {
			got = -1
		}
		if got != c.want {
			t.Errorf("%s, %q: got %d, %v, want %d", c.name, c.value, got, err, c.want)
		}
	}
}

// The present window of the period lasts for an hour before and after now.
func TestLasting(t *testing.T) {
	for start := range 30 * 24 * 2 {
		now := time.Unix(0, 0).Add(20_000*24*time.Hour + time.Duration(start)*30*time.Minute)
		period := lasting(now)
		used := time.Duration(now.UnixNano()) % period
		if period < 24*time.Hour || period > 30*time.Hour || used <= time.Hour || period-used <= time.Hour {
			t.Errorf("at %v: got %v, of which %v have passed", now, period, used)
		}
	}
}
