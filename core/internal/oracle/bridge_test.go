package oracle

import (
	"cmp"
	"context"
	"math/big"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/reference"
)

// All that the tests of this package know of the engine is in this file.

// An engine is a store that runs the engine under test, by a clock that the test moves.
type engine struct {
	store *reference.Store
	now   int64
	rules map[*Rule]*driver.Compiled
}

func newEngine() *engine {
	e := &engine{rules: make(map[*Rule]*driver.Compiled)}
	e.store = reference.New(func() int64 { return e.now })
	return e
}

var algorithms = map[string]driver.Algorithm{
	"token_bucket": driver.TokenBucket, "leaky_bucket": driver.LeakyBucket, "fixed_window": driver.FixedWindow,
	"sliding_log": driver.SlidingLog, "sliding_window": driver.SlidingWindow,
}

// compile compiles r, whose Extra is soft percent of the limit. It reports whether the engine accepts
// the rule.
func (e *engine) compile(r *Rule, soft float64) bool {
	c, err := driver.Definition{
		Name: r.Name, Algorithm: algorithms[r.Algorithm], Events: int(r.Events), Per: time.Duration(r.Per) * time.Microsecond,
		Burst: int(r.Burst), SubWindows: int(r.SubWindows), Soft: soft, Shadow: r.Shadow,
	}.Compile()
	if err != nil {
		return false
	}
	e.rules[r] = c
	return true
}

// enlarge returns rules that base is when it is elastic, up to upTo times as large.
func (e *engine) enlarge(base *Rule, upTo float64) (all []*Rule) {
	for _, factor := range []float64{1 + (upTo-1)*0.3, upTo} {
		enlarged, d := *base, e.rules[base].Definition()
		d.Events = int(float64(d.Events) * factor)
		d.Burst = int(float64(d.Burst) * float64(d.Events) / float64(base.Events))
		c, err := d.CompileLike(e.rules[base])
		if err != nil {
			continue
		}
		enlarged.Events, enlarged.Burst = int64(d.Events), int64(d.Burst)
		if enlarged.Extra = percent(cmp.Or(enlarged.Burst, enlarged.Events), d.Soft); isBucket(base) {
			enlarged.Base = base
		}
		e.rules[&enlarged] = c
		all = append(all, &enlarged)
	}
	return all
}

var ops = [...]driver.Op{
	Spend: driver.Spend, Peek: driver.Peek, Reset: driver.Reset, Credit: driver.Credit, Debit: driver.Debit, Undo: driver.Undo,
}

// call makes charges at now and returns the answers and, in their place, the receipts that were
// written. charges stay as they are.
func (e *engine) call(now int64, charges []Charge) (answers []Verdict, receipts []Receipt, err error) {
	e.now = now
	own, call := make([]driver.Charge, len(charges)), e.store.Take
	for i, c := range charges {
		own[i] = driver.Charge{Key: c.Key, Rule: e.rules[c.Rule], Op: ops[c.Op], Cost: int(c.Cost), MaxDelay: c.MaxDelay}
		if c.Receipt != nil {
			m := toEngine(*c.Receipt)
			own[i].Receipt = &m
		}
		if !own[i].Op.Asks() {
			call = e.store.Adjust
		}
	}
	if err := call(context.Background(), own); err != nil {
		return nil, nil, err
	}
	receipts = make([]Receipt, len(charges))
	for i, c := range own {
		v := c.Verdict
		answers = append(answers, Verdict{
			Allowed: v.Allowed, Remaining: int64(v.Remaining), RetryAfter: micros(v.RetryAfter), ResetAfter: micros(v.ResetAfter),
			Delay: micros(v.Delay), Soft: v.Soft, Found: v.Found, Window: micros(v.Window),
		})
		if c.Receipt != nil && c.Op != driver.Undo {
			receipts[i] = fromEngine(*c.Receipt, charges[i].Rule)
		}
	}
	return answers, receipts, nil
}

func micros(d time.Duration) int64 {
	if d == driver.Never {
		return Never
	}
	return int64(d / time.Microsecond)
}

// A receipt of the engine has the time in Used in whole microseconds and the parts of one into which
// the rate divides it.

func parts(r *Rule) *big.Int { return big.NewRat(r.Per, r.Events).Denom() }

func toEngine(m Receipt) driver.Receipt {
	receipt := driver.Receipt{At: m.At, Age: m.Age}
	if m.Used != nil {
		micros, rest := new(big.Int).QuoRem(m.Used.Num(), m.Used.Denom(), new(big.Int))
		frac := rest.Mul(rest, parts(m.Rule))
		receipt.Used.Micros, receipt.Used.Frac = micros.Int64(), frac.Quo(frac, m.Used.Denom()).Int64()
	}
	return receipt
}

func fromEngine(receipt driver.Receipt, r *Rule) Receipt {
	m := Receipt{At: receipt.At, Age: receipt.Age}
	if isBucket(r) && m.At != 0 {
		m.Used, m.Rule = new(big.Rat).SetFrac(big.NewInt(receipt.Used.Frac), parts(r)), r
		m.Used.Add(m.Used, new(big.Rat).SetInt64(receipt.Used.Micros))
	}
	return m
}

// keep is the engine's [Receipt.Keep].
func (e *engine) keep(m Receipt, r *Rule, cost int64) Receipt {
	return fromEngine(e.rules[r].Keep(toEngine(m), cost), r)
}
