package observe

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// A key that is in more than a room-th of the events is found among any number of others, and its count
// is at most the error too high.
func TestSketch_Flood(t *testing.T) {
	s := sketch{room: 40}
	true, total := make(map[string]uint64), 0
	for range 50_000 {
		key := fmt.Sprint("flood ", rand.Uint32())
		if n := rand.IntN(100); n < 10 {
			key = fmt.Sprint("heavy ", n)
		}
		true[key]++
		total++
		hash := uint64(0)
		for _, c := range []byte(key) {
			hash = hash*1099511628211 + uint64(c)
		}
		s.add(hash, key, "api", 1)
	}
	if len(s.keys) != 40 || len(s.at) != 40 {
		t.Fatalf("got %d keys and %d places, want 40", len(s.keys), len(s.at))
	}
	for i, k := range s.keys {
		key := string(k.key)
		if n := true[key]; k.count < n || k.count-k.error > n || k.error > uint64(total/40) {
			t.Errorf("%s: got %d with an error of %d, want about %d", key, k.count, k.error, n)
		}
		if s.at[k.hash] != i || i > 0 && s.keys[(i-1)/2].count > k.count {
			t.Errorf("key %d is in the wrong place", i)
		}
	}
}

// A key takes at most maxKey bytes.
func TestSketch_LongKeys(t *testing.T) {
	s := sketch{room: 2}
	for i := range 10 {
		s.add(uint64(i), strings.Repeat("x", 1<<20), "", 1)
	}
	for _, k := range s.keys {
		if len(k.key) != maxKey || cap(k.key) > 2*maxKey {
			t.Errorf("got %d bytes of room for %d, want %d", cap(k.key), len(k.key), maxKey)
		}
	}
}
