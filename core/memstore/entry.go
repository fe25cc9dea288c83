package memstore

import "github.com/weir-go/weir/core/driver"

// An entry is a State that is not in a [cell], and the rule that it was last used by.
type entry struct {
	state driver.State
	rule  *driver.Compiled
}

// entryWeight is the size of a slot[entry].
const entryWeight = 48

func (e *entry) weight() int { return entryWeight + e.state.Size() }

func (e *entry) idle(now int64) bool { return e.rule == nil || e.rule.ExpiresAt(e.state) <= now }

// pressure of a debt that is being paid back is that of a spent bucket: forgetting it would
// admit the debtor. A log that has begun to fill up is as good as spent: it gets smaller, but
// it does not go. If logs gave way to each other while they grow, none would ever reach its
// limit in a store that is too small.
func (e *entry) pressure(now int64) uint64 {
	if e.idle(now) {
		return 0
	}
	count := e.state.Count()
	switch {
	case count > 2 || e.rule.Algorithm().IsBucket():
		return spent
	case count == 0:
		count = e.rule.Read(e.state, now, 1).Count
	}
	return pressure(uint64(count), uint64(e.rule.Capacity()))
}
