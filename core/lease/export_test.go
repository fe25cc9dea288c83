package lease

import (
	"cmp"
	"slices"
	"testing"

	"github.com/weir-go/weir/core/driver"
)

// An Event was admitted at Micros, by the clock of the Store behind. Rule may be nil.
type Event struct {
	Micros, Cost int64
	Rule         *driver.Compiled
}

// Overflow returns by how many tokens a bucket of rule overflows that is charged at the times of the
// events: by so many they are over Burst + rate x T in some span T. An event with a Rule of its own,
// which must have the length of rule, takes the part of the bucket that it takes under that Rule.
func Overflow(rule *driver.Compiled, events []Event) (most int64) {
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.Micros, b.Micros) })
	k := rule.Constants
	den := k.Denominator // of all rules
	for _, e := range events {
		if e.Rule != nil && den%e.Rule.Constants.Denominator != 0 {
			den *= e.Rule.Constants.Denominator
		}
	}
	units := func(s driver.Span, k driver.Constants) int64 { return s.Micros*den + s.Frac*(den/k.Denominator) }
	unit, full := units(k.Unit, k), units(k.Full, k)
	used, last := int64(0), int64(0)
	for _, e := range events {
		own := unit
		if e.Rule != nil {
			own = units(e.Rule.Constants.Unit, e.Rule.Constants)
		}
		used = max(0, used-min(e.Micros-last, full/den+1)*den) + e.Cost*own
		last = e.Micros
		most = max(most, (used-full+unit-1)/unit)
	}
	return most
}

// AwaitFetches waits until the tokens of all fetches that are under way are held. No other goroutine may use s.
func (s *Store) AwaitFetches() { s.fetches.Wait() }

// ReturnAll undoes the charges of all tokens that are held, which were leased at this very moment, and of those
// that are fetched.
func (s *Store) ReturnAll(t testing.TB) {
	s.AwaitFetches()
	now := s.clock()
	for i := range s.shards {
		s.shards[i].mu.Lock()
		for a := range s.shards[i].all {
			for _, b := range slices.Backward(a.bundles[:]) {
				b.expire(&a.u, now)
				n := b.tokens(&a.u)
				if n == 0 {
					continue
				}
				receipt := b.receipt(&a.u)
				if err := s.next.Adjust(t.Context(), []driver.Charge{{Key: a.key, Rule: a.u.rule, Op: driver.Undo, Cost: int(n), Receipt: receipt}}); err != nil {
					t.Fatal(err)
				}
				a.reply.used -= n * a.u.unit
			}
			a.bundles = [2]bundle{}
		}
		s.shards[i].mu.Unlock()
	}
}

// Origins returns the origins of the tokens that are held.
func (s *Store) Origins() (origins []int) {
	for i := range s.shards {
		for a := range s.shards[i].all {
			for _, b := range a.bundles {
				if b.tokens(&a.u) > 0 {
					origins = append(origins, b.origin)
				}
			}
		}
	}
	slices.Sort(origins)
	return slices.Compact(origins)
}

// SetClock makes s read nanoseconds from clock.
func (s *Store) SetClock(clock func() int64) { s.clock = clock }
