package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// checkPeriod is the period of the rules of checks, after which their keys expire.
const checkPeriod = 10 * time.Second

// A step is an op of the check of a script, with the result that it must have.
type step struct {
	op     driver.Op
	cost   int
	atMost bool
	of     int // Undo and Renew: the index of the step whose receipt they have

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
		{op: driver.Spend, cost: 1},
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

// scriptChecks has the check of each library: a rule of three events, and the steps.
var scriptChecks = [len(libraries)]struct {
	rule  driver.Definition
	steps []step
}{
	bucket:        {driver.Definition{Algorithm: driver.TokenBucket, Events: 3, Per: checkPeriod}, rateSteps},
	slidingWindow: {driver.Definition{Algorithm: driver.SlidingWindow, Events: 3, Per: checkPeriod, SubWindows: 10}, rateSteps},
	slidingLog:    {driver.Definition{Algorithm: driver.SlidingLog, Events: 3, Per: checkPeriod}, rateSteps},
	inFlight:      {driver.Definition{Algorithm: driver.InFlight, Events: 3, Hold: checkPeriod, ByCost: true}, placeSteps},
	quota:         {driver.Definition{Algorithm: driver.FixedWindow, Events: 3, Per: checkPeriod, FromFirst: true}, rateSteps}, // a short period
	pause:         {driver.Definition{Algorithm: driver.Pause}, pauseSteps},
}

// errSteps reports that a script has run, and that its result is wrong.
var errSteps = errors.New("the script decides wrongly")

// checkScript runs the steps of a library. A wrong result is no failure if the steps have the right results when they
// are repeated: a window may have ended between two of them.
func (t *target) checkScript(ctx context.Context, l library) Finding {
	name := fmt.Sprint("script ", libraries[l])
	err := t.runSteps(ctx, l)
	if errors.Is(err, errSteps) {
		err = t.runSteps(ctx, l) // the first run has left no state
	}
	if err != nil {
		return t.failed(ctx, name, err, "do not use the algorithm on this server, or use another server")
	}
	return Finding{Check: name, Result: ResultOK, Detail: "decides, undoes and resets"}
}

func (t *target) runSteps(ctx context.Context, l library) error {
	rule, err := t.rule(scriptChecks[l].rule)
	if err != nil {
		return err
	}
	steps := scriptChecks[l].steps
	receipts := make([]driver.Receipt, len(steps))
	for i, s := range steps {
		c := driver.Charge{Rule: rule, Op: s.op, Cost: s.cost, AtMost: s.atMost}
		switch s.op {
		case driver.Undo, driver.Renew:
			c.Receipt = receipts[s.of]
		case driver.Debit:
			c.Pause = checkPeriod
		}
		if err := t.do(ctx, &c); err != nil {
			return err
		}
		if receipts[i] = c.Receipt; !s.right(&c) {
			if err := t.do(ctx, &driver.Charge{Rule: rule, Op: driver.Reset}); err != nil {
				return err
			}
			return fmt.Errorf("%w: step %d (%s) has the result %+v", errSteps, i+1, opArgument(&c), c.Verdict)
		}
	}
	return nil
}

// rule returns the rule of a check.
func (t *target) rule(d driver.Definition) (*driver.Compiled, error) {
	d.Name = "check"
	return d.Compile()
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

// do executes a charge on the key of t.
func (t *target) do(ctx context.Context, c *driver.Charge) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.Key = t.identity
	one := &call{charges: []driver.Charge{*c}}
	t.store.router.setKeys(one)
	t.store.executor.exec(ctx, time.Now().Add(t.timeout), one)
	if one.err == nil {
		one.err = one.setVerdicts(one.admitted)
	}
	*c = one.charges[0]
	if errors.Is(one.err, context.DeadlineExceeded) {
		return noReply(t.timeout)
	}
	return one.err
}
