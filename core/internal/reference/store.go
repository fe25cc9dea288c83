// Package reference is a [core.Store] for tests of Stores over Stores: maps, one lock,
// the algorithms, and a clock that the test moves.
package reference

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/algo"
)

// A Store is a [core.Store] in its simplest form.
type Store struct {
	clock func() int64

	mu      sync.Mutex
	buckets map[[2]string]algo.Level
	windows map[[2]string]algo.Tally
	logs    map[[2]string]*algo.History
	calls   int
}

// New returns a Store that reads microseconds from clock.
func New(clock func() int64) *Store {
	return &Store{
		clock:   clock,
		buckets: make(map[[2]string]algo.Level),
		windows: make(map[[2]string]algo.Tally),
		logs:    make(map[[2]string]*algo.History),
	}
}

// Calls is how often the Store was asked.
func (r *Store) Calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

// Forget forgets all states of key.
func (r *Store) Forget(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.buckets, func(at [2]string, _ algo.Level) bool { return at[0] == key })
	maps.DeleteFunc(r.windows, func(at [2]string, _ algo.Tally) bool { return at[0] == key })
	maps.DeleteFunc(r.logs, func(at [2]string, _ *algo.History) bool { return at[0] == key })
}

// Take implements [core.Store].
func (r *Store) Take(ctx context.Context, charges []core.Charge) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := core.CheckCharges(charges); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	now := r.clock()
	admitted := !slices.ContainsFunc(charges, func(c core.Charge) bool {
		return c.Op.Asks() && !c.Rule.IsShadow() && !r.verdict(&c, now, false).Allowed
	})
	for i := range charges {
		c := &charges[i]
		spent := false
		if c.Op.Asks() {
			v := r.verdict(c, now, false)
			fits := admitted && v.Allowed
			if spent = fits && c.Op == core.Spend; spent {
				v = r.verdict(c, now, true)
			}
			c.Answer(v, spent)
			if fits && !spent {
				continue
			}
		}
		r.change(c, now, spent)
		if !c.Op.Asks() {
			c.Answer(r.verdict(c, now, false), false)
		}
	}
	return nil
}

func at(c *core.Charge) [2]string { return [2]string{c.Key, c.Rule.Name()} }

// put keeps a state, if there is anything to it.
func put[S comparable](states map[[2]string]S, c *core.Charge, state S) {
	var none S
	if state == none {
		delete(states, at(c))
		return
	}
	states[at(c)] = state
}

func (r *Store) log(c *core.Charge) *algo.History {
	if r.logs[at(c)] == nil {
		r.logs[at(c)] = new(algo.History)
	}
	return r.logs[at(c)]
}

func (r *Store) verdict(c *core.Charge, now int64, spent bool) algo.Verdict {
	switch p := c.Rule.Program(); p.Kind {
	case algo.KindTokenBucket, algo.KindLeakyBucket:
		used, _ := p.Bucket.Used(r.buckets[at(c)], now)
		return p.Bucket.Verdict(used, c.Asked(), c.Patience(), spent)
	case algo.KindFixedWindow:
		count, _ := p.Window.Used(r.windows[at(c)], now)
		return p.Window.Verdict(count, p.Window.Left(now), c.Asked(), spent)
	case algo.KindSlidingLog, algo.KindSlidingWindow:
		return p.Log.Verdict(p.Log.Read(r.log(c), now, c.Asked()), c.Asked(), spent)
	default:
		panic(p.Kind.Unknown())
	}
}

// change does what c says, or writes back what the clock has left behind.
func (r *Store) change(c *core.Charge, now int64, spent bool) {
	p, cost := c.Rule.Program(), int64(c.Cost)
	used, late := p.Bucket.Used(r.buckets[at(c)], now)
	count := int64(0)
	switch p.Kind {
	case algo.KindFixedWindow:
		count, late = p.Window.Used(r.windows[at(c)], now)
	case algo.KindSlidingLog, algo.KindSlidingWindow:
		late = p.Log.Moved(r.log(c), now)
	}
	if c.Receipt != nil && (spent || c.Op == core.Debit) {
		*c.Receipt = core.Receipt{At: now}
		if p.Kind == algo.KindTokenBucket || p.Kind == algo.KindLeakyBucket {
			c.Receipt.Used = used
		}
	}
	switch p.Kind {
	case algo.KindTokenBucket, algo.KindLeakyBucket:
		level, changed := p.Bucket.At(used, now), late
		switch {
		case spent:
			level, changed = p.Bucket.Spend(used, now, cost), true
		case c.Op == core.Reset:
			level, changed = algo.Level{}, true
		case c.Op == core.Credit:
			level, changed = p.Bucket.Credit(used, now, cost), true
		case c.Op == core.Debit:
			level, changed = p.Bucket.Debit(used, now, cost), true
		case c.Op == core.Undo:
			level, changed = p.Bucket.Undo(used, now, cost, *c.Receipt)
		}
		if changed {
			put(r.buckets, c, level)
		}
	case algo.KindFixedWindow:
		changed := late
		switch {
		case spent:
			count, changed = count+cost, true
		case c.Op == core.Reset:
			count, changed = 0, true
		case c.Op == core.Credit:
			count, changed = max(0, count-cost), true
		case c.Op == core.Debit:
			count, changed = p.Window.Debit(count, cost), true
		case c.Op == core.Undo:
			count, changed = p.Window.Undo(count, now, cost, *c.Receipt)
		}
		if changed {
			put(r.windows, c, p.Window.At(count, now))
		}
	case algo.KindSlidingLog, algo.KindSlidingWindow:
		h := r.log(c)
		switch {
		case spent:
			p.Log.Spend(h, now, cost)
		case c.Op == core.Reset:
			delete(r.logs, at(c))
		case c.Op == core.Credit:
			p.Log.Credit(h, now, cost)
		case c.Op == core.Debit:
			p.Log.Debit(h, now, cost)
		case c.Op == core.Undo:
			p.Log.Undo(h, now, cost, *c.Receipt)
		case late:
			p.Log.Trim(h, now)
		}
	}
}
