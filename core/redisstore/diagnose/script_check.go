package diagnose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/internal/pipe"
)

// checkPeriod is the period of the rules of checks, after which their keys expire.
const checkPeriod = 10 * time.Second

// A step is an op of the check of a script, with the result that it must have.
type step struct {
	op     driver.Op
	cost   int
	atMost bool
	beside bool // in one decision with a Peek of another rule
	of     int  // Undo and Renew: the index of the step whose receipt they have

	allowed   bool // Spend
	takes     int  // the cost after a Spend with AtMost
	found     bool // Reset and Renew
	remaining int  // Undo
}

// The steps of rates, places and pauses begin without a state, and leave none.
var (
	rateSteps = []step{
		{op: driver.Spend, cost: 1, allowed: true},
		{op: driver.Spend, cost: 5, atMost: true, allowed: true, takes: 2},
		{op: driver.Spend, cost: 1, beside: true},
		{op: driver.Undo, cost: 1, of: 0, remaining: 1},
		{op: driver.Reset, found: true},
	}
	placeSteps = append([]step{rateSteps[0], {op: driver.Renew, cost: 1, of: 0, found: true}}, rateSteps[1:]...)
	pauseSteps = []step{
		{op: driver.Spend, cost: 5, atMost: true, allowed: true, takes: 5},
		{op: driver.Debit, cost: 1},
		{op: driver.Spend, cost: 1},
		{op: driver.Reset, found: true},
	}
)

// checkRule returns the rule of the check of a library: one of three events, for an algorithm that has the library.
func checkRule(a driver.Algorithm, period time.Duration) driver.Definition {
	d := driver.Definition{Name: "check", Algorithm: a}
	has := func(property string) bool { return slices.Contains(d.Kind().Properties, property) }
	d.FromFirst, d.ByCost = has("from first"), has("by cost")
	if has("limit") {
		d.Events = 3
	}
	if has("per") {
		d.Per = period
	}
	if has("hold") {
		d.Hold = period
	}
	if has("sub-windows") {
		d.SubWindows = 10
	}
	return d
}

// stepsOf returns the steps of the check of a kind of rules.
func stepsOf(k *driver.Kind) []step {
	switch {
	case k.Closes:
		return pauseSteps
	case k.Holds:
		return placeSteps
	}
	return rateSteps
}

// errSteps reports that a script has run, and that its result is wrong.
var errSteps = errors.New("the script decides wrongly")

// checkScript runs the steps of the library of an algorithm. A wrong result is no failure if the steps have the right results when they
// are repeated: a window may have ended between two of them.
func (t *target) checkScript(ctx context.Context, name string, a driver.Algorithm) Finding {
	err := t.runSteps(ctx, a)
	if errors.Is(err, errSteps) {
		err = t.runSteps(ctx, a) // the first run has left no state
	}
	if err != nil {
		return t.failed(ctx, name, err, "do not use the algorithm on this server, or use another server")
	}
	return Finding{Check: name, Result: ResultOK, Detail: "decides, undoes and resets"}
}

func (t *target) runSteps(ctx context.Context, a driver.Algorithm) error {
	rule, err := checkRule(a, checkPeriod).Compile()
	if err != nil {
		return err
	}
	other, err := checkRule(a, 2*checkPeriod).Compile()
	if err != nil {
		return err
	}
	steps := stepsOf(rule.Kind)
	receipts := make([]driver.Receipt, len(steps))
	for i, s := range steps {
		c := driver.Charge{Rule: rule, Op: s.op, Cost: s.cost, AtMost: s.atMost}
		switch s.op {
		case driver.Undo, driver.Renew:
			c.Receipt = receipts[s.of]
		case driver.Debit:
			c.Pause = checkPeriod
		}
		var others []driver.Charge
		if s.beside {
			others = append(others, driver.Charge{Rule: other, Op: driver.Peek, Cost: 1})
		}
		if err := t.do(ctx, &c, others...); err != nil {
			return err
		}
		if receipts[i] = c.Receipt; !s.right(&c) {
			if err := t.do(ctx, &driver.Charge{Rule: rule, Op: driver.Reset}); err != nil {
				return err
			}
			return fmt.Errorf("%w: step %d has the result %+v", errSteps, i+1, c.Verdict)
		}
	}
	return nil
}

// right reports whether c, the charge of s, has the result of s.
func (s *step) right(c *driver.Charge) bool {
	v := &c.Verdict
	switch {
	case s.op == driver.Undo:
		return v.Remaining == s.remaining
	case !s.op.Asks():
		return v.Found == s.found
	case s.atMost && c.Cost != s.takes, v.Allowed != s.allowed:
		return false
	}
	return s.allowed || v.RetryAfter > 0 && v.RetryAfter <= 2*checkPeriod // a sliding window adds a sub-window
}

// do executes a charge on the key of t, in one decision with others.
func (t *target) do(ctx context.Context, c *driver.Charge, others ...driver.Charge) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := pipe.NewJob()
	j.Charges = append([]driver.Charge{*c}, others...)
	for i := range j.Charges {
		j.Charges[i].Key = t.identity
		j.Keys = append(j.Keys, t.encoder.Key(t.encoder.Tag(t.identity), j.Charges[i].Rule))
	}
	t.encoder.Encode(&j.Request)
	err := t.pipe.Do(ctx, time.Now().Add(t.timeout), j)
	if err == nil {
		if err = j.Decode(); err == nil {
			err = j.Answer(j.Admitted)
			*c = j.Charges[0]
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return noReply(t.timeout)
	}
	return err
}
