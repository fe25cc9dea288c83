package memstore

import (
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

// Keys in one overflow bucket take at most its limit together. States that are half used are not evicted.
func TestStore_Take_AtMostOfOverflowBucket(t *testing.T) {
	for _, algorithm := range algorithms {
		r := algorithm("r", core.Per(10, time.Hour))
		t.Run(r.Algorithm().String(), func(t *testing.T) {
			s, _ := fullStore(t)
			l := s.limiter(r, algorithm("wide", core.Per(11, time.Hour)))
			k1, k2 := twoKeys(s, r)
			for i, c := range []struct {
				key     string
				n, want int
			}{{k1, 6, 6}, {k2, 3, 3}, {k1, 9, 1}, {k2, 9, 0}, {k1, 1, 0}} {
				got, err := l.ReserveAtMost(t.Context(), c.key, c.n)
				if err != nil {
					t.Fatal(err)
				}
				if got.Cost() != c.want {
					t.Errorf("call %d: got the cost %d, want %d", i, got.Cost(), c.want)
				}
			}
			if s.Stats().Overflowed == 0 {
				t.Error("no key has overflowed")
			}
		})
	}
}
