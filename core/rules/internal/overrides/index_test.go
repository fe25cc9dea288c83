package overrides

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testkit"
)

// An index and a map with the same changes are equal, and so are their sizes.
func TestIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x, want := newIndex(0), make(map[uint64]int64)
	for i := range 20_000 {
		hash := hashOfMember("api", fmt.Sprint(r.IntN(2000)))
		end := []int64{0, forever, int64(r.IntN(1000))}[r.IntN(3)]
		if x.set(hash, end); end == 0 || end < x.from {
			delete(want, hash)
		} else {
			want[hash] = end
		}
		if i%2000 == 0 {
			x.removeBefore(int64(i / 40))
			for hash, end := range want {
				if end < int64(i/40) {
					delete(want, hash)
				}
			}
		}
		if x.len() != len(want) {
			t.Fatalf("step %d: got %d keys, want %d", i, x.len(), len(want))
		}
	}
	for hash, end := range want {
		if got := x.end(hash); got != end {
			t.Errorf("got the end %d, want %d", got, end)
		}
	}
}

func TestIndex_Has(t *testing.T) {
	now := time.Now().UnixMilli()
	for name, c := range map[string]struct {
		end  int64
		want bool
	}{"absent": {0, false}, "for ever": {forever, true}, "ended": {now - 1, false}, "not ended": {now + 60_000, true}} {
		x := newIndex(0)
		if x.set(1, c.end); x.has(1) != c.want {
			t.Errorf("%s: got %v", name, !c.want)
		}
	}
}

// The documented size of a key.
func TestIndex_Memory(t *testing.T) {
	const n = 200_000
	before := testkit.Heap()
	x := newIndex(0)
	for i := range uint64(n) {
		x.set(rand.Uint64()|i<<63, forever)
	}
	per := float64(testkit.Heap()-before) / n
	t.Logf("%.1f bytes a key", per)
	if per < 17 || per > 38 || x.len() != n {
		t.Errorf("got %.1f bytes for each of %d keys", per, x.len())
	}
}
