package rules

import (
	"context"
	"errors"
	"slices"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
)

// storeName returns the name of a rule on a store.
func storeName(policy, rule string) string { return policy + "." + rule }

// candidateName returns the name of the candidate of a rule on a store.
func candidateName(rule string) string { return rule + ".candidate" }

// constructors has a function for every algorithm.
var constructors = map[driver.Algorithm]func(string, core.Limit) core.Rule{
	driver.TokenBucket:   core.TokenBucket,
	driver.LeakyBucket:   core.LeakyBucket,
	driver.FixedWindow:   core.FixedWindow,
	driver.SlidingLog:    core.SlidingLog,
	driver.SlidingWindow: core.SlidingWindow,
}

// algorithmNames has every algorithm under its name in a file.
var algorithmNames = func() map[string]driver.Algorithm {
	names := make(map[string]driver.Algorithm)
	for a := range constructors {
		names[a.String()] = a
	}
	return names
}()

// build returns r, without its candidate, as a rule that is called name on a store. The algorithm
// of r must not be zero.
func (r *Rule) build(name string) core.Rule {
	c := constructors[r.Algorithm](name, r.Limit)
	for _, p := range r.Plans {
		c = c.Plan(p.Name, p.Limit)
	}
	if r.Soft != 0 {
		c = c.Soft(r.Soft)
	}
	if r.SubWindows != 0 {
		c = c.SubWindows(r.SubWindows)
	}
	if r.Shadow {
		c = c.Shadow()
	}
	if r.Unit != "" {
		c = c.Unit(r.Unit)
	}
	return c
}

// check returns the error of package core for a rule.
func (r *Rule) check(name string) *core.RuleError {
	_, err := core.New(noStore{}, r.build(name))
	var e *core.RuleError
	errors.As(err, &e)
	return e
}

// with returns r with the limit l for all plans.
func (r Rule) with(l core.Limit) *Rule {
	r.Limit, r.Plans = l, slices.Clone(r.Plans)
	for i := range r.Plans {
		r.Plans[i].Limit = l
	}
	return &r
}

// A noStore is the store of limiters that are made only to check their rules.
type noStore struct{}

func (noStore) Take(context.Context, []driver.Charge) error   { return driver.ErrUnavailable }
func (noStore) Adjust(context.Context, []driver.Charge) error { return driver.ErrUnavailable }
