package storetest

import (
	"cmp"
	"math/big"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/storetest/internal/oracle"
	"github.com/weir-go/weir/internal/testkit"
)

// driverAlgorithms holds all algorithms by name, and algorithmNames their names in order.
var driverAlgorithms, algorithmNames = func() (byName map[string]driver.Algorithm, names []string) {
	byName = make(map[string]driver.Algorithm)
	for _, a := range testkit.Names() {
		byName[a.String()], names = a, append(names, a.String())
	}
	return byName, names
}()

var driverOps = [...]driver.Op{
	oracle.Spend: driver.Spend, oracle.Peek: driver.Peek, oracle.Reset: driver.Reset,
	oracle.Credit: driver.Credit, oracle.Debit: driver.Debit, oracle.Undo: driver.Undo,
	oracle.Renew: driver.Renew,
}

// driverKind returns the Kind of r in package driver.
func driverKind(r *oracle.Rule) *driver.Kind {
	d := driver.Definition{Algorithm: driverAlgorithms[r.Algorithm]}
	return d.Kind()
}

func isBucketRule(r *oracle.Rule) bool   { return driverKind(r).Refills }
func isInFlightRule(r *oracle.Rule) bool { return driverKind(r).Holds }
func takesOnePlace(r *oracle.Rule) bool  { return isInFlightRule(r) && !r.ByCost }
func isQuotaRule(r *oracle.Rule) bool    { return driverKind(r).Calendar }
func isPauseRule(r *oracle.Rule) bool    { return driverKind(r).Closes }

// fromFirst is the name of the fixed window with FromFirst in testkit.Algorithms.
const fromFirst = "fixed_window_from_first"

// byCost is the name of the algorithm of an in-flight rule by cost.
const byCost = "in_flight_by_cost"

// kindOf returns the algorithm of r, and whether its windows begin with the first event, or its places are by cost.
func kindOf(r *oracle.Rule) string {
	switch {
	case r.FromFirst:
		return fromFirst
	case r.ByCost:
		return byCost
	}
	return r.Algorithm
}

// A catalog holds the compiled form of each rule of the oracle, and translates charges and
// verdicts of the oracle to charges and verdicts of package driver.
type catalog map[*oracle.Rule]*driver.Compiled

// compile adds r, a limit of plan, whose Extra is soft percent of the limit, and which leaves
// headroom percent. It returns false if no store can run r, such as a bucket of 1000 tokens that gains
// one token a year.
func (c catalog) compile(r *oracle.Rule, plan string, soft, headroom float64) bool {
	d := driver.Definition{
		Name: r.Name, Plan: plan, Algorithm: driverAlgorithms[r.Algorithm], Events: int(r.Events), Per: time.Duration(r.Per) * time.Microsecond,
		Burst: int(r.Burst), FromFirst: r.FromFirst, ByCost: r.ByCost, SubWindows: int(r.SubWindows), Rollover: int(r.Rollover), Soft: soft, Headroom: headroom,
		Shadow: r.Shadow,
	}
	switch {
	case isInFlightRule(r):
		d.Per, d.Hold = 0, d.Per
	case isQuotaRule(r):
		d.Per, d.Calendar = 0, units[r.Unit]
	case isPauseRule(r):
		d.Per = 0
	}
	compiled, err := d.Compile()
	if err != nil {
		return false
	}
	c[r] = compiled
	r.Rollover = int64(compiled.Rollover) // less if the limit is close to the largest one
	return true
}

// enlarge adds and returns two sizes of base as an elastic rule; the larger is upTo times as large.
func (c catalog) enlarge(base *oracle.Rule, upTo float64) (all []*oracle.Rule) {
	for _, factor := range []float64{1 + (upTo-1)*0.3, upTo} {
		enlarged, d := *base, c[base].Definition
		d.Events = int(float64(d.Events) * factor)
		d.Burst = int(float64(d.Burst) * float64(d.Events) / float64(base.Events))
		d.Like = c[base]
		compiled, err := d.Compile()
		if err != nil {
			continue
		}
		setLimit(&enlarged, d)
		if isBucketRule(base) {
			enlarged.Base = base
		}
		c[&enlarged] = compiled
		all = append(all, &enlarged)
	}
	return all
}

// divide adds and returns the rule for one of n processes that share r, unless that is r, or a bucket
// that holds more than its part of r.
func (c catalog) divide(r *oracle.Rule, n int) (all []*oracle.Rule) {
	compiled, part := c[r].Divide(n), *r
	d := compiled.Definition
	setLimit(&part, d)
	if isBucketRule(r) {
		part.Per, part.Base = d.Per.Microseconds(), r
		own, whole := part, part
		own.Base, own.Leaves, whole.Leaves = nil, nil, nil
		if compiled == c[r] || r.Base != nil || whole.Capacity() < own.Capacity() {
			return nil
		}
	}
	c[&part] = compiled
	return append(all, &part)
}

// setLimit sets the limit of r to that of d.
func setLimit(r *oracle.Rule, d driver.Definition) {
	r.Events, r.Burst = int64(d.Events), int64(d.Burst)
	limit := cmp.Or(r.Burst, r.Events)
	r.Extra, r.Leaves, r.Rollover = percent(limit, d.Soft), leaves(d.Headroom), int64(d.Rollover)
}

// leaves returns the part that a headroom in percent leaves, or nil for all.
func leaves(headroom float64) *big.Rat {
	if headroom == 0 {
		return nil
	}
	return new(big.Rat).Quo(exactly(100-headroom), big.NewRat(100, 1))
}

// charge returns o as a charge for a store at now, with the store's own receipt.
func (c catalog) charge(o *oracle.Charge, now int64, receipt *driver.Receipt) driver.Charge {
	if receipt == nil {
		receipt = new(driver.Receipt)
	}
	rule := c[o.Rule]
	if own, ok := o.Calendar.(calendar); ok {
		rule = rule.During(own.periods(now))
	}
	return driver.Charge{
		Key: o.Key, Rule: rule, Op: driverOps[o.Op], AtMost: o.AtMost, Cost: int(o.Cost), MaxDelay: o.MaxDelay, Pause: o.Pause, Ban: o.Ban, Receipt: *receipt, Waiter: waiterOf(o.Waiter),
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
		Rule: c[o.Rule], Allowed: v.Allowed, Soft: v.Soft, Found: v.Found, Done: !driverOps[o.Op].Asks(), Remaining: int(most(v.Remaining)),
		Period:     int32(v.Period / 1_000_000),
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
