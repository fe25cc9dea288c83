package core

import (
	"errors"
	"fmt"

	"github.com/weir-go/weir/core/driver"
)

// Categories of errors, for errors.Is.
var (
	// ErrInvalidLimit reports a text that is not a Limit.
	ErrInvalidLimit = errors.New("weir: invalid limit")
	// ErrInvalidRule reports a rule that New cannot accept. The error is a *RuleError.
	ErrInvalidRule = driver.ErrInvalidRule
	// ErrRuleConflict reports a name that another rule on the Store has. The error is a *RuleError.
	ErrRuleConflict = driver.ErrRuleConflict
	// ErrNoStore reports a Store that is nil or cannot be compared.
	ErrNoStore = errors.New("weir: no usable store")
	// ErrEmptyKey reports an empty key. Nothing was charged.
	ErrEmptyKey = errors.New("weir: empty key")
	// ErrNegativeCost reports a cost below zero. Nothing was charged.
	ErrNegativeCost = errors.New("weir: negative cost")
	// ErrInvalidAsk reports an invalid argument. Nothing was charged. It is one of these:
	//
	//   - a call without asks, or with limiters of different Stores
	//   - two limits for one rule and key in one call
	//   - more than 128 asks, or rules for keys of which more than 128 would be charged, in one call
	//   - an Ask without a Limiter, or with a negative MaxDelay
	//   - a function of Choose that returns an error, or no view of its limiter, or that replaces rules
	//   - a limiter that a call cannot settle or replace
	//   - an [InFlight] rule in a call that could not free its place, such as Allow
	ErrInvalidAsk = errors.New("weir: invalid ask")
	// ErrNeverAdmitted reports that the cost of a Wait or an Acquire is above the capacity of a rule. The
	// capacity of [Blocked] is zero, unless the block ends.
	ErrNeverAdmitted = errors.New("weir: costs more than a rule can ever admit")
	// ErrDeadlineTooNear reports that a Wait or an Acquire cannot end before the deadline of its context.
	ErrDeadlineTooNear = errors.New("weir: the deadline is nearer than the wait")
	// ErrTooManyWaiters reports that 10 000 calls of Wait and Acquire of one Limiter are waiting already, or that other
	// events take the units that a WaitN waits for.
	ErrTooManyWaiters = errors.New("weir: too many waiters")
	// ErrUnavailable reports that the Store is down, or did not reply within its own timeout. If
	// the context ends first, the error is that of the context.
	ErrUnavailable = driver.ErrUnavailable
	// ErrFailClosed reports that the Store or the overrides of a key are down, and that package
	// failover or rules is configured to fail closed. The error is an ErrUnavailable, too. Package
	// gate responds with 503.
	ErrFailClosed = driver.ErrFailClosed
)

func invalidAsk(reason string) error { return fmt.Errorf("%w: %s", ErrInvalidAsk, reason) }

// A RuleError is an [ErrInvalidRule] or an [ErrRuleConflict]. Its fields name the Rule and the
// Field that is invalid or in conflict, and the Reason.
type RuleError = driver.RuleError

// errNoHolder is the error of calls that would take places that no caller could free.
var errNoHolder = invalidAsk("a rule is InFlight, and no caller could free its place: use Reserve or Acquire")
