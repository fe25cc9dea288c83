package lease

import (
	"cmp"
	"slices"
	"testing"

	"github.com/weir-go/weir/core/driver"
)

// An Event was admitted then, by the Store's clock.
type Event struct{ US, Cost int64 }

// Overflow is by how many tokens a bucket overflows that is charged at the very times of
// the events: by so many they are over Burst + rate x T in some span T.
func Overflow(rule *driver.Compiled, events []Event) (most int64) {
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.US, b.US) })
	k := rule.Constants()
	den := k.Denominator
	unit, full := k.Unit.Micros*den+k.Unit.Frac, k.Full.Micros*den+k.Full.Frac
	used, last := int64(0), int64(0)
	for _, e := range events {
		used = max(0, used-min(e.US-last, full/den+1)*den) + e.Cost*unit
		last = e.US
		most = max(most, (used-full+unit-1)/unit)
	}
	return most
}

// ReturnAll undoes the charges of all tokens that are held, which were leased at this very
// moment.
func (s *Store) ReturnAll(t testing.TB) {
	now := s.clock()
	for i := range s.shards {
		s.shards[i].mu.Lock()
		for _, c := range s.shards[i].entries {
			for j, b := range slices.Backward(c.blocks[:]) {
				if b.trim(c.u, now); b.tokens(c.u) > 0 {
					receipt := b.receipt(c.u)
					err := s.next.Adjust(t.Context(), []driver.Charge{{Key: c.key, Rule: c.u.rule, Op: driver.Undo, Cost: int(b.tokens(c.u)), Receipt: &receipt}})
					if err != nil {
						t.Fatal(err)
					}
				}
				c.reply.used -= b.tokens(c.u) * c.u.unit
				c.blocks[j] = block{}
			}
		}
		s.shards[i].mu.Unlock()
	}
}

// SetClock makes s read nanoseconds from clock.
func (s *Store) SetClock(clock func() int64) { s.clock = clock }
