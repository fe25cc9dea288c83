package main

import "sync"

// An account holds the sums of one rule of one key.
type account struct {
	rule     rule
	key      string
	redisKey string // of the state

	mu           sync.Mutex // guards the fields below
	total        totals     // since the start
	opening      int        // the count of the state at the last check
	acknowledged int        // the acknowledged sum since then
	possible     possible   // the possible sums since then
}

// An entry is an operation in an account.
type entry struct {
	failed, denied bool
	cost           int   // of an operation that has not failed: the change of the state, negative for a refund
	changes        []int // of one that has failed: the possible changes of the state
}

func (a *account) add(e entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total.operations++
	switch {
	case e.failed:
		a.total.failed++
		if len(e.changes) > 1 {
			a.total.unknown++
		}
		a.possible.add(e.changes...)
		return
	case e.denied:
		a.total.denied++
	}
	a.acknowledged += e.cost
	a.possible.add(e.cost)
}

// begin begins the time to the next check with the count of the state.
func (a *account) begin(count int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.opening, a.acknowledged, a.possible = count, 0, newPossible()
}

// close adds the time since the last check to the totals. count is that of the state.
func (a *account) close(count int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := &a.total
	t.acknowledged += a.acknowledged
	t.low += a.possible.low
	t.high += a.possible.high()
	t.counted += count - a.opening
}
