package memstore

import (
	"time"

	"github.com/weir-go/weir/core/driver"
)

// An item holds a State that does not fit a [bucket], and the rule that used it last. The State is
// a debt, a fixed window, a quota, a sliding log, a sliding window, the places of an in-flight rule, or a pause.
type item struct {
	state driver.State
	rule  *driver.Compiled
}

// itemSize is the size of a slot[item] in bytes.
const itemSize = 48

func (it *item) size() int { return itemSize + it.state.Size() }

func (it *item) idle(s *shard, now int64) bool {
	return it.rule == nil || it.rule.ExpiresAt(it.state) <= it.time(s, now)
}

// time returns the time at which e, which is in s, is read when the time of the store is now. For a quota, time
// returns that of the wall clock if it is earlier, so no present period counts as expired. The option Clock replaces
// both.
func (it *item) time(s *shard, now int64) int64 {
	if it.rule.Kind.Calendar && !s.clocked {
		now = min(now, time.Now().UnixMicro())
	}
	return now
}

// fillRatio returns exhausted for a debt, because its eviction would admit the key again, and for a
// log of three or more events. If logs were evicted while they grow, none would reach its limit in
// a store that is too small for its users. It returns exhausted for places, which are in use, and for a pause.
func (it *item) fillRatio(s *shard, now int64) uint64 {
	if it.idle(s, now) {
		return 0
	}
	k := it.rule.Kind
	if k.Refills || k.Holds || k.Closes {
		return exhausted
	}
	r := (&driver.Charge{Rule: it.rule, Cost: 1}).Read(it.state, it.time(s, now))
	if !k.Windows && r.Count > 2 {
		return exhausted
	}
	c := &it.rule.Constants
	return ratio(uint64(r.Count), uint64(c.Capacity-c.Rollover+min(r.Rest, c.Rollover)))
}
