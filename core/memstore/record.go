package memstore

import "github.com/weir-go/weir/core/internal/algo"

// A record is the state of a sliding log or a sliding window, and the rule that
// it was last used by.
type record struct {
	history algo.History
	rule    *algo.Log
}

// weight returns the size of a slot[record] and of its runs. A new record is weighed
// with the run that it is about to get.
func (r *record) weight() int { return 56 + 16*max(1, r.history.Size()) }

func (r *record) idle(now int64) bool {
	return r.rule == nil || r.rule.Expired(&r.history, now)
}

// A log that has begun to fill up is as good as spent: it gets smaller, but it
// does not go. If logs gave way to each other while they grow, none would ever
// reach its limit in a store that is too small.
func (r *record) pressure(now int64) uint64 {
	switch count := r.history.Count(); {
	case r.idle(now):
		return 0
	case count > 2:
		return spent
	default:
		return pressure(uint64(count), uint64(r.rule.Events))
	}
}

// A tally is the state of a fixed window, and the rule that it was last used by.
type tally struct {
	state algo.Tally
	rule  *algo.Window
}

// weight returns the size of a slot[tally].
func (*tally) weight() int { return 32 }

func (t *tally) idle(now int64) bool { return t.pressure(now) == 0 }

func (t *tally) pressure(now int64) uint64 {
	if t.rule == nil {
		return 0
	}
	used, _ := t.rule.Used(t.state, now)
	if used == 0 {
		return 0
	}
	return pressure(uint64(used), uint64(t.rule.Events))
}
