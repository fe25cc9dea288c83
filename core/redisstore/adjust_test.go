package redisstore_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/testkit"
	"github.com/weir-go/weir/core/redisstore"
	"github.com/weir-go/weir/core/redisstore/redistest"
)

// TestStore_Undo_otherRate undoes charges with receipts whose fractions no bucket of the rule
// writes, as one of another rate does, and compares the verdicts with those of the reference
// store.
func TestStore_Undo_otherRate(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t).Client()
	for _, a := range testkit.Algorithms[:2] { // buckets
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			rule := a.Rule("r", core.Per(3, 7*time.Second)) // an event is 2333333 1/3 us
			rng := rand.New(rand.NewPCG(1, 1))
			for range 300 {
				p := newPair(t, rdb, rule)
				pause := func() { p.Advance(time.Duration(rng.IntN(2)*rng.IntN(3_000_000)) * time.Microsecond) }
				p.do(driver.Charge{Op: driver.Debit, Cost: 1 + rng.IntN(6), Receipt: new(driver.Receipt)})
				pause()
				c := p.do(driver.Charge{Op: driver.Debit, Cost: 1, Receipt: new(driver.Receipt)})
				pause()
				c.Receipt.Used.Frac = []int64{2, 3, 10, 1 << 40}[rng.IntN(4)]
				p.do(driver.Charge{Op: driver.Undo, Cost: 1, Receipt: c.Receipt})
			}
		})
	}
}

// TestStore_unknownAlgorithm declares and takes a rule of an algorithm that the package does
// not have.
func TestStore_unknownAlgorithm(t *testing.T) {
	t.Parallel()
	s := redisstore.New(redistest.Shared(t).Client(), prefix())
	rule := new(driver.Compiled)
	want := rule.Algorithm().Unknown()
	charges := func(op driver.Op) []driver.Charge {
		return []driver.Charge{{Key: "k", Rule: rule, Op: op, Cost: 1}}
	}
	for _, c := range []struct {
		name string
		call func() error
	}{
		{"Declare", func() error { return s.Declare(rule) }},
		{"Take", func() error { return s.Take(t.Context(), charges(driver.Spend)) }},
		{"Adjust", func() error { return s.Adjust(t.Context(), charges(driver.Reset)) }},
		{"Probe", func() error { return s.Probe(t.Context(), charges(driver.Peek)) }},
	} {
		t.Run(c.name, func(t *testing.T) { testkit.Panics(t, want, func() { _ = c.call() }) })
	}
}
