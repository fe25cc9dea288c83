package oracle

import (
	"context"
	"math/big"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/reference"
)

// All that the tests of this package know of the engine is in this file.

// An engine is a store that runs the engine under test, by a clock that the test moves.
type engine struct {
	store *reference.Store
	now   int64
	rules map[*Rule]core.Rule
}

func newEngine() *engine {
	e := &engine{rules: make(map[*Rule]core.Rule)}
	e.store = reference.New(func() int64 { return e.now })
	return e
}

// compile compiles r, whose Extra is soft percent of the limit. It reports whether the engine accepts
// the rule.
func (e *engine) compile(r *Rule, soft float64) bool {
	limit := core.Limit{Events: int(r.Events), Per: time.Duration(r.Per) * time.Microsecond, Burst: int(r.Burst)}
	rule := map[string]func(string, core.Limit) core.Rule{
		"token_bucket": core.TokenBucket, "leaky_bucket": core.LeakyBucket, "fixed_window": core.FixedWindow,
		"sliding_log": core.SlidingLog, "sliding_window": core.SlidingWindow,
	}[r.Algorithm](r.Name, limit)
	if r.Algorithm == "sliding_window" {
		rule = rule.SubWindows(int(r.SubWindows))
	}
	if r.Shadow {
		rule = rule.Shadow()
	}
	rule = rule.Soft(soft)
	if core.CheckCharges([]core.Charge{{Rule: rule, Cost: 1}}) != nil {
		return false
	}
	e.rules[r] = rule
	return true
}

// enlarge returns the rules that base is when it is elastic, up to upTo times as large.
func (e *engine) enlarge(base *Rule, upTo float64) (all []*Rule) {
	spare := 0.0
	elastic := e.rules[base].Elastic(func() float64 { return spare }, upTo)
	l, err := core.New(e.store, elastic)
	if err != nil {
		return nil // it is too large
	}
	for _, spare = range []float64{0.3, 1} {
		d, err := l.Peek(context.Background(), "elastic")
		if err != nil {
			panic(err)
		}
		rule, enlarged := d.State(0).Rule, *base
		enlarged.Events, enlarged.Burst = int64(rule.Limit().Events), int64(rule.Limit().Burst)
		enlarged.Extra = percent(int64(rule.Capacity()), rule.SoftPercent())
		if isBucket(base) {
			enlarged.Base = base
		}
		e.rules[&enlarged] = rule
		all = append(all, &enlarged)
	}
	return all
}

var ops = [...]core.Op{
	Spend: core.Spend, Peek: core.Peek, Reset: core.Reset, Credit: core.Credit, Debit: core.Debit, Undo: core.Undo,
}

// call makes charges at now and returns the answers and, in their place, the receipts that were
// written. charges stay as they are.
func (e *engine) call(now int64, charges []Charge) (answers []Verdict, receipts []Receipt, err error) {
	e.now = now
	own, found := make([]core.Charge, len(charges)), make([]bool, len(charges))
	for i, c := range charges {
		own[i] = core.Charge{Key: c.Key, Rule: e.rules[c.Rule], Op: ops[c.Op], Cost: int(c.Cost), MaxDelay: c.MaxDelay}
		if c.Receipt != nil {
			m := toEngine(*c.Receipt)
			own[i].Receipt = &m
		}
		if c.Op == Reset {
			peek := []core.Charge{{Key: c.Key, Rule: own[i].Rule, Op: core.Peek, Cost: 1}}
			if err := e.store.Take(context.Background(), peek); err != nil {
				return nil, nil, err
			}
			found[i] = peek[0].State.ResetAfter > 0
		}
	}
	if err := e.store.Take(context.Background(), own); err != nil {
		return nil, nil, err
	}
	receipts = make([]Receipt, len(charges))
	for i, c := range own {
		s := c.State
		answers = append(answers, Verdict{
			Allowed: s.Allowed, Remaining: int64(s.Remaining), RetryAfter: micros(s.RetryAfter), ResetAfter: micros(s.ResetAfter),
			Delay: micros(s.Delay), Soft: s.Soft, Found: found[i], Window: micros(s.Window),
		})
		if c.Receipt != nil && c.Op != core.Undo {
			receipts[i] = fromEngine(*c.Receipt, charges[i].Rule)
		}
	}
	return answers, receipts, nil
}

func micros(d time.Duration) int64 {
	if d == core.Never {
		return Never
	}
	return int64(d / time.Microsecond)
}

// A receipt of the engine has the time in Used in whole microseconds and the parts of one into which
// the rate divides it.

func parts(r *Rule) *big.Int { return big.NewRat(r.Per, r.Events).Denom() }

func toEngine(m Receipt) core.Receipt {
	receipt := core.Receipt{At: m.At, Age: m.Age}
	if m.Used != nil {
		micros, rest := new(big.Int).QuoRem(m.Used.Num(), m.Used.Denom(), new(big.Int))
		frac := rest.Mul(rest, parts(m.Rule))
		receipt.Used.Micros, receipt.Used.Frac = micros.Int64(), frac.Quo(frac, m.Used.Denom()).Int64()
	}
	return receipt
}

func fromEngine(receipt core.Receipt, r *Rule) Receipt {
	m := Receipt{At: receipt.At, Age: receipt.Age}
	if isBucket(r) && m.At != 0 {
		m.Used, m.Rule = new(big.Rat).SetFrac(big.NewInt(receipt.Used.Frac), parts(r)), r
		m.Used.Add(m.Used, new(big.Rat).SetInt64(receipt.Used.Micros))
	}
	return m
}

// keep is the engine's [Receipt.Keep].
func (e *engine) keep(m Receipt, r *Rule, cost int64) Receipt {
	return fromEngine(e.rules[r].Program().Keep(toEngine(m), cost), r)
}

// knowsZero reports whether the engine knows the zero Receipt in an Undo of c, as it should. It
// takes that for the receipt of a charge at the epoch, which frees something if the period, or the
// refill of the cost, reaches back to the epoch.
func knowsZero(c *Charge, now int64) bool {
	longest := max(float64(c.Cost)/float64(c.Rule.Events), 1) * float64(c.Rule.Per)
	return 2*longest < float64(now)
}

// readsReceipt reports whether the engine, under limit r, reads the receipt of a charge under other.
// Of a bucket, it does not if their rates differ in the parts of a microsecond.
func readsReceipt(r, other *Rule) bool {
	return !isBucket(r) || parts(r).Cmp(parts(other)) == 0
}
