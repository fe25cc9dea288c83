package memstore

import "github.com/weir-go/weir/core/internal/algo"

// A record is the state of a sliding log, and the rule that it was last used by.
type record struct {
	history algo.History
	rule    *algo.Log
}

// A record weighs as much as the cells that its memory would hold: a slot of 56
// bytes is two of them, and two runs of 16 bytes are one and a third.
const recordWeight = 2

func (r *record) weight() int { return recordWeight + r.history.Size()*2/3 }

func (r *record) idle(now int64) bool {
	return r.rule == nil || r.rule.Expired(&r.history, now)
}

// pressure is how near the log is to refusing; see cell.pressure.
func (r *record) pressure(now int64) uint64 {
	switch count := r.history.Count(); {
	case r.idle(now):
		return 0
	case count >= r.rule.Events:
		return spentPressure
	default:
		return 1 + uint64(float64(count)/float64(r.rule.Events)*(spentPressure-2))
	}
}
