package core

import (
	"math"
	"time"
)

// Divide returns r for one of n processes that enforce it each on its own, because
// they cannot ask each other: a rule of the same name and modifiers that admits
// the n-th part.
//
// The rate of a bucket is divided exactly, with a longer period where the events
// cannot be divided: a third of 10/s is 10/3s. What it holds, and the events of a
// window or log, are divided without the fraction, so that n shares together
// never admit more than r. But a share admits at least one event, so where r
// admits fewer than n at once, n shares admit n. n less than 2 is r itself, and so
// is what cannot be divided: a soft bucket that takes decades to refill.
func (r Rule) Divide(n int) Rule {
	if n < 2 || r.d == nil || r.d.err != nil {
		return r
	}
	for _, limit := range r.d.shares(n) {
		if part := r.with(func(d *definition) { d.limit = limit }); part.d.err == nil {
			return part
		}
	}
	return r
}

// shares are limits for an n-th of r, the best first: a longer period may reach
// over more than 100 years, and then cannot be run.
func (r *definition) shares(n int) []Limit {
	least := Limit{Events: max(1, r.limit.Events/n), Per: r.limit.Per}
	if !r.isBucket() {
		return []Limit{least}
	}
	least.Burst = 1
	common := divisor(r.limit.Events, n)
	exact := Limit{Events: r.limit.Events / common, Burst: max(1, r.limit.capacity()/n)}
	if exact.Burst == exact.Events {
		exact.Burst = 0
	}
	longer := int64(n / common)
	if int64(r.limit.Per) > math.MaxInt64/longer {
		return []Limit{least}
	}
	exact.Per = r.limit.Per * time.Duration(longer)
	return []Limit{exact, least}
}

func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
