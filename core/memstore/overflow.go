package memstore

import (
	"math"
	"math/bits"

	"github.com/weir-go/weir/core/driver"
)

// overflowBuckets is the number of states of one rule that a shard keeps for the keys that find no
// memory for a state of their own. Such a key shares one of them with others.
const overflowBuckets = 16

// hashes are the two hashes of one rule of one key, under which its state may be stored.
type hashes struct{ own, overflow uint64 }

func newHashes(key, rule uint64) hashes {
	return hashes{own: mix(key, rule), overflow: mix(key>>32%overflowBuckets, ^rule)}
}

// mix returns a hash of two words that is never 0, the mark of a free slot.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xbf58476d1ce4e5b9)
	return max(1, hi^lo)
}

// reserve makes room for a state of so many bytes, and returns the hash to store it under: that of the
// overflow bucket if there is no room. It may evict others.
func (s *shard) reserve(h hashes, weight int, now int64) uint64 {
	if s.makeRoom(weight, 0, now) {
		return h.own
	}
	s.overflowed = true
	s.stats.Overflowed++
	return h.overflow
}

// overflowCost returns the cost of the i-th charge and of those before it that share its overflow
// bucket.
func overflowCost(charges []driver.Charge, states []chargeState, i int) int {
	st, sum := &states[i], charges[i].Cost
	for j := range states[:i] {
		if o := &states[j]; o.overflow == st.overflow && o.shard == st.shard && !o.isOwn() && charges[j].Op == driver.Spend {
			sum += min(charges[j].Cost, math.MaxInt-sum)
		}
	}
	return sum
}
