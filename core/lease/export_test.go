package lease

import (
	"cmp"
	"context"
	"slices"

	"github.com/weir-go/weir/core"
)

// An Event was admitted then, by the Store's clock.
type Event struct{ US, Cost int64 }

// Overflow is by how many tokens a bucket overflows that is charged at the very times of
// the events: by so many they are over Burst + rate x T in some span T.
func Overflow(rule *core.Rule, events []Event) (most int64) {
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.US, b.US) })
	b := &rule.Program().Bucket
	den := b.Den()
	unit, full := b.Unit.Micros*den+b.Unit.Frac, b.Full.Micros*den+b.Full.Frac
	used, last := int64(0), int64(0)
	for _, e := range events {
		used = max(0, used-min(e.US-last, full/den+1)*den) + e.Cost*unit
		last = e.US
		most = max(most, (used-full+unit-1)/unit)
	}
	return most
}

// EndAll gives back all that is held.
func (s *Store) EndAll() {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		var debts []debt
		for _, c := range sh.cells {
			debts = append(debts, c.end(s.clock(), true)...)
		}
		sh.mu.Unlock()
		s.pay(context.Background(), debts)
	}
}

// SetClock makes s read nanoseconds from clock.
func (s *Store) SetClock(clock func() int64) { s.clock = clock }
