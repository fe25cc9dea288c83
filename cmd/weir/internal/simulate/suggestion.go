package simulate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
)

// A Suggestion finds limits for events that would have denied few keys. It counts as a [core.SlidingWindow]
// does: the largest count of a key is the smallest limit that would have denied none of its events.
type Suggestion struct {
	simulation *Simulation
	limiter    *core.Limiter
	periods    []time.Duration
	keys       map[string]*counted
}

// A counted has the figures of one key.
type counted struct {
	requests uint64
	most     []int64 // the largest count for each period
}

// unbounded is the largest limit.
const unbounded = min(1<<48-1, math.MaxInt)

// NewSuggestion returns a Suggestion for limits with some periods.
func NewSuggestion(periods []time.Duration) (*Suggestion, error) {
	s := &Suggestion{simulation: New(), periods: periods, keys: make(map[string]*counted)}
	rules := make([]core.Rule, len(periods))
	for i, p := range periods {
		rules[i] = core.SlidingWindow(fmt.Sprint(i), core.Per(unbounded, p))
	}
	var err error
	s.limiter, err = core.New(s.simulation.Store(), rules...)
	var invalid *core.RuleError
	if errors.As(err, &invalid) {
		return nil, fmt.Errorf("period %v: %s", periods[slices.IndexFunc(rules, func(r core.Rule) bool { return r.Name() == invalid.Rule })], invalid.Reason)
	}
	return s, err
}

// Add counts an event. The times of events must not decrease.
func (s *Suggestion) Add(ctx context.Context, e *Event) error {
	s.simulation.now = e.At
	d, err := core.AllowTogether(ctx, core.Ask{Limiter: s.limiter, Key: e.Key, Cost: e.Cost})
	if err != nil {
		return err
	}
	if !d.Allowed {
		return fmt.Errorf("the costs of a key within one period are more than %d, the largest limit", unbounded)
	}
	c := s.keys[e.Key]
	if c == nil {
		c = &counted{most: make([]int64, len(s.periods))}
		s.keys[e.Key] = c
	}
	c.requests++
	for i, state := range d.States() {
		c.most[i] = max(c.most[i], int64(state.Used()))
	}
	return nil
}

// Keys returns the number of keys.
func (s *Suggestion) Keys() int { return len(s.keys) }

// Requests returns the keys and the numbers of their events.
func (s *Suggestion) Requests() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for key, c := range s.keys {
			if !yield(key, c.requests) {
				return
			}
		}
	}
}

// Counts returns the largest count of each key for the i-th period, in ascending order.
func (s *Suggestion) Counts(i int) []int64 {
	counts := make([]int64, 0, len(s.keys))
	for _, c := range s.keys {
		counts = append(counts, c.most[i])
	}
	slices.Sort(counts)
	return counts
}

// Denied returns the number of keys that at least one of limits would have denied, one for each period, and the
// number of all requests of these keys. A limit of zero denies none.
func (s *Suggestion) Denied(limits []int64) (keys int, requests uint64) {
	for _, c := range s.keys {
		for i, l := range limits {
			if l > 0 && c.most[i] > l {
				keys++
				requests += c.requests
				break
			}
		}
	}
	return keys, requests
}

// Limit returns the smallest limit, from 1 on, that would have denied at most so many keys. counts is a result of Counts.
func Limit(counts []int64, deny int) int64 {
	if deny < len(counts) {
		return counts[len(counts)-1-deny]
	}
	return 1
}
