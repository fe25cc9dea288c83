package storetest

import (
	"cmp"
	"math/big"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest/internal/oracle"
)

// driverAlgorithms holds all algorithms by name, and algorithmNames their names in order.
var driverAlgorithms, algorithmNames = func() (byName map[string]driver.Algorithm, names []string) {
	byName = make(map[string]driver.Algorithm)
	for a := driver.TokenBucket; a.String() != driver.Algorithm(0).String(); a++ {
		byName[a.String()], names = a, append(names, a.String())
	}
	return byName, names
}()

var driverOps = [...]driver.Op{
	oracle.Spend: driver.Spend, oracle.Peek: driver.Peek, oracle.Reset: driver.Reset,
	oracle.Credit: driver.Credit, oracle.Debit: driver.Debit, oracle.Undo: driver.Undo,
	oracle.Renew: driver.Renew,
}

func isBucketRule(r *oracle.Rule) bool   { return driverAlgorithms[r.Algorithm].IsBucket() }
func isInFlightRule(r *oracle.Rule) bool { return driverAlgorithms[r.Algorithm] == driver.InFlight }

// A catalog holds the compiled form of each rule of the oracle, and translates charges and
// verdicts of the oracle to charges and verdicts of package driver.
type catalog map[*oracle.Rule]*driver.Compiled

// compile adds r, a limit of plan, whose Extra is soft percent of the limit. It returns false if no
// store can run r, such as a bucket of 1000 tokens that gains one token a year.
func (c catalog) compile(r *oracle.Rule, plan string, soft float64) bool {
	d := driver.Definition{
		Name: r.Name, Plan: plan, Algorithm: driverAlgorithms[r.Algorithm], Events: int(r.Events), Per: time.Duration(r.Per) * time.Microsecond,
		Burst: int(r.Burst), SubWindows: int(r.SubWindows), Soft: soft, Shadow: r.Shadow,
	}
	if isInFlightRule(r) {
		d.Per, d.Hold = 0, d.Per
	}
	compiled, err := d.Compile()
	if err != nil {
		return false
	}
	c[r] = compiled
	return true
}

// enlarge adds and returns two sizes of base as an elastic rule; the larger is upTo times as large.
func (c catalog) enlarge(base *oracle.Rule, upTo float64) (all []*oracle.Rule) {
	for _, factor := range []float64{1 + (upTo-1)*0.3, upTo} {
		enlarged, d := *base, c[base].Definition
		d.Events = int(float64(d.Events) * factor)
		d.Burst = int(float64(d.Burst) * float64(d.Events) / float64(base.Events))
		compiled, err := d.CompileLike(c[base])
		if err != nil {
			continue
		}
		enlarged.Events, enlarged.Burst = int64(d.Events), int64(d.Burst)
		if enlarged.Extra = percent(cmp.Or(enlarged.Burst, enlarged.Events), d.Soft); isBucketRule(base) {
			enlarged.Base = base
		}
		c[&enlarged] = compiled
		all = append(all, &enlarged)
	}
	return all
}

// charge returns o as a charge for a store, with the store's own receipt.
func (c catalog) charge(o *oracle.Charge, receipt *driver.Receipt) driver.Charge {
	if receipt == nil {
		receipt = new(driver.Receipt)
	}
	return driver.Charge{
		Key: o.Key, Rule: c[o.Rule], Op: driverOps[o.Op], AtMost: o.AtMost, Cost: int(o.Cost), MaxDelay: o.MaxDelay, Receipt: *receipt,
	}
}

// verdict returns the Verdict of o in the form of a store.
func (c catalog) verdict(o *oracle.Charge) driver.Verdict {
	span := func(us int64) time.Duration {
		if us == oracle.Never {
			return driver.Never
		}
		return time.Duration(us) * time.Microsecond
	}
	v := o.Verdict
	return driver.Verdict{
		Rule: c[o.Rule], Allowed: v.Allowed, Soft: v.Soft, Found: v.Found, Remaining: int(v.Remaining),
		RetryAfter: span(v.RetryAfter), ResetAfter: span(v.ResetAfter), Window: span(v.Window), Delay: span(v.Delay),
	}
}

// isReceipt reports whether got equals want, except for Origin, which belongs to the store.
func isReceipt(got driver.Receipt, want oracle.Receipt) bool {
	if want.Used == nil {
		return got.At == want.At && got.Age == want.Age && got.Used == driver.Span{}
	}
	parts := big.NewRat(want.Rule.Per, want.Rule.Events).Denom()
	used := new(big.Rat).SetFrac(big.NewInt(got.Used.Frac), parts)
	used.Add(used, new(big.Rat).SetInt64(got.Used.Micros))
	return got.At == want.At && got.Age == want.Age && used.Cmp(want.Used) == 0
}
