package simulate

import (
	"context"
	"errors"
	"fmt"
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
	most       map[string][]int64 // by key: the largest count for each period
}

// unbounded is the largest limit.
const unbounded = min(1<<48-1, math.MaxInt)

// NewSuggestion returns a Suggestion for limits with some periods.
func NewSuggestion(periods []time.Duration) (*Suggestion, error) {
	s := &Suggestion{simulation: New(), periods: periods, most: make(map[string][]int64)}
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
	most := s.most[e.Key]
	if most == nil {
		most = make([]int64, len(s.periods))
		s.most[e.Key] = most
	}
	for i, state := range d.States() {
		most[i] = max(most[i], int64(state.Used()))
	}
	return nil
}

// Keys returns the number of keys.
func (s *Suggestion) Keys() int { return len(s.most) }

// Counts returns the largest count of each key for the i-th period, in ascending order.
func (s *Suggestion) Counts(i int) []int64 {
	counts := make([]int64, 0, len(s.most))
	for _, most := range s.most {
		counts = append(counts, most[i])
	}
	slices.Sort(counts)
	return counts
}

// Limit returns the smallest limit, from 1 on, that would have denied at most so many keys, and the number of keys
// that it would have denied. counts is a result of Counts.
func Limit(counts []int64, deny int) (limit int64, denied int) {
	limit = 1
	if deny < len(counts) {
		limit = counts[len(counts)-1-deny]
	}
	next, _ := slices.BinarySearch(counts, limit+1)
	return limit, len(counts) - next
}
