package failover

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/internal/atmost"
)

// A backup executes the charges that the primary cannot execute. The charges of a rule go to the
// store or, if answers contains the name of the rule, to an Answer.
type backup struct {
	store     driver.Store
	processes func() int            // nil without Processes
	counted   func(rule string) int // the numbers of the primary; nil if it does not count
	answers   map[string]Answer     // by the name of the rule; the store decides about other rules
	warn      sync.Once

	mu      sync.Mutex
	unknown map[string]bool // names in answers that no declared rule has
}

func (b *backup) init(s driver.Store, counted func(rule string) int, c *config) {
	b.store, b.processes, b.counted, b.answers = s, c.processes, counted, c.answers
	b.unknown = make(map[string]bool)
	for name := range b.answers {
		b.unknown[name] = true
	}
}

// declare declares the definitions on the store: whole, because the number of processes may change.
func (b *backup) declare(changes []driver.Change) error {
	if err := driver.Declare(b.store, changes...); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range changes {
		for _, d := range c.New {
			delete(b.unknown, d.Name)
		}
	}
	return nil
}

// check returns the error of [Store.Check].
func (b *backup) check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.unknown) == 0 {
		return nil
	}
	return fmt.Errorf("%w: failover: FailClosedFor or FailOpenFor name %q, which no limiter on the store has",
		driver.ErrInvalidRule, slices.Sorted(maps.Keys(b.unknown)))
}

// do executes each charge on the backup of its rule. A fail-closed rule that is not a shadow makes
// the whole decision fail. The charges of an Adjust are independent, so the method do executes the
// charges of all other rules before it returns the error.
func (b *backup) do(ctx context.Context, do verb, charges []driver.Charge) error {
	b.warn.Do(func() {
		if err := b.check(); err != nil {
			slog.Warn("weir: FailClosedFor or FailOpenFor name rules that do not exist", slog.String("error", err.Error()))
		}
	})
	for i := range charges { // the primary may have written receipts before it failed
		if c := &charges[i]; leavesReceipt(c) {
			c.Receipt = driver.Receipt{}
		}
	}
	if !b.answersAny(charges) {
		return b.doDivided(ctx, do, charges)
	}
	var stored part
	var err error
	for i := range charges {
		c := &charges[i]
		switch a, ok := b.answers[c.Rule.Name]; {
		case !ok:
			stored.add(i, *c)
		case a == FailOpen || c.Rule.Shadow:
			admit(c)
			setOrigin(c, byBackup, 0)
		case c.Op.Asks():
			return errClosed
		default:
			err = errClosed
		}
	}
	if len(stored.charges) == 0 {
		return err
	}
	failed := b.doDivided(ctx, do, stored.charges)
	if failed != nil && stored.charges[0].Op.Asks() {
		return failed
	}
	stored.copyTo(charges)
	atmost.SetCost(charges, stored.charges[0].Cost)
	return cmp.Or(failed, err)
}

func (b *backup) answersAny(charges []driver.Charge) bool {
	return len(b.answers) > 0 && slices.ContainsFunc(charges, func(c driver.Charge) bool {
		_, ok := b.answers[c.Rule.Name]
		return ok
	})
}

// partRetry is the RetryAfter of a cost that is above a part of the limit: it fits when the primary returns.
const partRetry = time.Second

// maxParts is the largest number by which a rule is divided. Its bits are in [driver.Receipt.Origin].
const (
	partBits = 14
	maxParts = 1<<partBits - 1
)

// parts appends to all the numbers by which the rules of charges are divided now, or 0 for whole ones. Charges of one rule
// have one number.
func (b *backup) parts(charges []driver.Charge, all []int) []int {
	each := 0
	if b.processes != nil {
		each = max(1, b.processes())
	}
	for i := range charges {
		n, rule := each, charges[i].Rule
		if j := slices.IndexFunc(charges[:i], func(c driver.Charge) bool { return c.Rule.Name == rule.Name }); j >= 0 {
			n = all[j]
		} else if n == 0 && b.counted != nil {
			n = b.counted(rule.Name)
		}
		if n <= 1 {
			n = 0
		}
		all = append(all, min(n, maxParts))
	}
	return all
}

// doDivided executes charges on the store, with rules divided by the numbers of processes, of which each rule has one
// for the call. An Undo and a Renew have the number of their charge: with a smaller one, an Undo would free more than was
// charged. doDivided restores the rules of the caller before it returns.
func (b *backup) doDivided(ctx context.Context, do verb, charges []driver.Charge) error {
	var rooms [8]*driver.Compiled
	var room [8]int
	whole, numbers := rooms[:0], b.parts(charges, room[:0])
	for i := range charges {
		c := &charges[i]
		if readsReceipt(c) {
			c.Receipt.Origin, numbers[i] = originOf(c.Receipt)
		}
		whole = append(whole, c.Rule)
		c.Rule = c.Rule.Divide(numbers[i])
	}
	defer func() {
		for i := range charges {
			c := &charges[i]
			if v := &c.Verdict; c.Rule != whole[i] && v.RetryAfter == driver.Never && int64(c.Cost) <= whole[i].Constants.Capacity {
				v.RetryAfter, v.Window = partRetry, partRetry
			}
			c.Rule = whole[i]
		}
	}()
	if err := do(b.store, ctx, charges); err != nil {
		return err
	}
	for i := range charges {
		setOrigin(&charges[i], byBackup, numbers[i])
	}
	return nil
}

// An Answer is a Store that keeps no states and treats all events alike. Use it as the backup of
// [New], or for single rules by [FailOpenFor] and [FailClosedFor].
type Answer uint8

const (
	// FailClosed returns core.ErrFailClosed, which is a core.ErrUnavailable, for every event. A
	// gate then responds with 503. A decision that contains only shadow rules is admitted, because
	// they are never enforced (see core.Rule.Shadow).
	FailClosed Answer = iota
	// FailOpen admits every event. Its decisions report the states of unused keys.
	FailOpen
)

var errClosed = fmt.Errorf("%w: %w: the primary is away", driver.ErrUnavailable, driver.ErrFailClosed)

// Take implements [driver.Store].
func (a Answer) Take(_ context.Context, charges []driver.Charge) error {
	for i := range charges {
		if a != FailOpen && !charges[i].Rule.Shadow {
			return errClosed
		}
		admit(&charges[i])
	}
	return nil
}

// Adjust implements [driver.Store].
func (a Answer) Adjust(ctx context.Context, charges []driver.Charge) error {
	return a.Take(ctx, charges)
}

// admit admits c. The Verdict is that of a cost of 1 on an unused key, because the real cost may
// exceed the capacity and would then be denied.
func admit(c *driver.Charge) {
	one := driver.Charge{Rule: c.Rule, Op: driver.Peek, Cost: 1}
	one.Decide(driver.State{}, time.Now().UnixMicro())
	c.Verdict = one.Verdict
	c.Verdict.Found = c.Op == driver.Renew // an event without a place loses none
}
