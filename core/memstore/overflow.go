package memstore

import (
	"math"

	"github.com/weir-go/weir/core/driver"
)

// overflowBuckets is the number of overflow buckets of one rule in a shard. A key that finds no
// memory for a state of its own shares one of these buckets with other keys.
const overflowBuckets = 16

// hashes are the hashes under which the state of one rule of one key may be stored: its own, or
// that of an overflow bucket.
type hashes struct{ own, overflow uint64 }

func newHashes(key, rule uint64) hashes {
	return hashes{own: mix(key, rule), overflow: mix(key>>32%overflowBuckets, ^rule)}
}

// overflowCost returns the cost of charges[i] and of the charges before it that share its overflow
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
