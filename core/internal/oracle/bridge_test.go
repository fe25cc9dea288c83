package oracle

import (
	"context"
	"fmt"
	"math/big"
	"strconv"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/internal/algo"
	"github.com/weir-go/weir/core/internal/reference"
)

// All that this package's tests know of the engine is in this file.

// An engine is a store that runs the engine under test, by a clock that the test moves.
type engine struct {
	store *reference.Store
	now   int64
}

func newEngine() *engine {
	e := new(engine)
	e.store = reference.New(func() int64 { return e.now })
	return e
}

// take makes charges at now.
func (e *engine) take(now int64, charges []core.Charge) error {
	e.now = now
	return e.store.Take(context.Background(), charges)
}

// inUse reports whether anything is in use that a Reset would forget.
func (e *engine) inUse(now int64, c core.Charge) (bool, error) {
	peek := []core.Charge{{Key: c.Key, Rule: c.Rule, Op: core.Peek, Cost: 1}}
	err := e.take(now, peek)
	return peek[0].State.ResetAfter > 0, err
}

// ruleOf translates a rule, of which base is the rule that was made elastic, or nil.
func ruleOf(r core.Rule, base *Rule) *Rule {
	soft, ok := new(big.Rat).SetString(strconv.FormatFloat(r.SoftPercent(), 'f', -1, 64))
	if !ok {
		panic("no percentage")
	}
	return &Rule{
		Name:       r.Name(),
		Algorithm:  r.Algorithm().String(),
		Events:     int64(r.Limit().Events),
		Per:        r.Limit().Per.Microseconds(),
		Burst:      int64(r.Limit().Burst),
		Extra:      floor(mul(soft, big.NewRat(int64(r.Capacity()), 100))),
		SubWindows: int64(r.SubWindowCount()),
		Shadow:     r.IsShadow(),
		Base:       base,
	}
}

// ops translates ops.
var ops = map[core.Op]Op{
	core.Spend: Spend, core.Peek: Peek, core.Reset: Reset, core.Credit: Credit, core.Debit: Debit, core.Undo: Undo,
}

// keep is [Receipt.Keep] for the engine's receipts.
func keep(m core.Receipt, r core.Rule, cost int64) core.Receipt { return r.Program().Keep(m, cost) }

// differ says how the engine's answer to c differs from that of the oracle, or "" if it does not.
func differ(c *core.Charge, want *Charge) string {
	duration := func(micros int64) time.Duration {
		if micros == Never {
			return core.Never
		}
		return time.Duration(micros) * time.Microsecond
	}
	v := want.Verdict
	state := core.State{
		Rule: c.Rule, Allowed: v.Allowed, Remaining: int(v.Remaining), RetryAfter: duration(v.RetryAfter),
		ResetAfter: duration(v.ResetAfter), Window: duration(v.Window), Delay: duration(v.Delay), Soft: v.Soft,
	}
	if c.State != state {
		return fmt.Sprintf("got  %+v\nwant %+v", c.State, state)
	}
	if c.Receipt == nil || c.Op == core.Undo {
		return ""
	}
	used := algo.Span{}
	if m := want.Receipt.Used; m != nil {
		used.Micros = floor(m)
		used.Frac = floor(mul(sub(m, whole(used.Micros)), new(big.Rat).SetInt(want.Rule.parts())))
	}
	if receipt := (core.Receipt{At: want.Receipt.At, Used: used}); *c.Receipt != receipt {
		return fmt.Sprintf("got  receipt %+v\nwant receipt %+v", *c.Receipt, receipt)
	}
	return ""
}

// knowsZero reports whether the engine knows the zero Receipt, as it should. It takes that for the
// receipt of a charge at the epoch, which frees something where the epoch is as near as a limit
// reaches.
func knowsZero(r *Rule, cost, now int64) bool {
	switch {
	case r.isBucket():
		return r.refill(r.units(cost)).Cmp(whole(now)) < 0
	case r.Algorithm == "fixed_window":
		return true
	}
	return r.end(0)+r.Per <= now
}

// readsReceipt reports whether the engine, under limit r, reads the receipt of a charge under other.
// Of a bucket, it does not if their rates differ in the parts of a microsecond.
func readsReceipt(r, other *Rule) bool {
	return !r.isBucket() || r.parts().Cmp(other.parts()) == 0
}
