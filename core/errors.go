package core

import (
	"errors"

	"github.com/weir-go/weir/core/driver"
)

// Categories of errors, for errors.Is.
var (
	// ErrInvalidLimit: a text is not a Limit.
	ErrInvalidLimit = errors.New("weir: invalid limit")
	// ErrInvalidRule: New was given a rule that cannot be run. The error is a *RuleError.
	ErrInvalidRule = driver.ErrInvalidRule
	// ErrRuleConflict: a Store already serves another rule of the same name. The error is a *RuleError.
	ErrRuleConflict = driver.ErrRuleConflict
	// ErrNoStore: New was given no usable Store.
	ErrNoStore = errors.New("weir: no usable store")
	// ErrEmptyKey: the key of an event is empty. Nothing was taken.
	ErrEmptyKey = errors.New("weir: empty key")
	// ErrNegativeCost: a cost below zero. Nothing was taken.
	ErrNegativeCost = errors.New("weir: negative cost")
	// ErrInvalidAsk: an Ask has no Limiter, another Store than the others or a negative
	// MaxDelay, or there is no Ask. Nothing was taken.
	ErrInvalidAsk = errors.New("weir: invalid ask")
	// ErrNeverAdmitted: Wait was asked for more than a rule can ever admit.
	ErrNeverAdmitted = errors.New("weir: costs more than a rule can ever admit")
	// ErrDeadlineTooNear: Wait would have to wait beyond the deadline of its context.
	ErrDeadlineTooNear = errors.New("weir: the deadline is nearer than the wait")
	// ErrTooManyWaiters: MaxWaiters wait already.
	ErrTooManyWaiters = errors.New("weir: too many waiters")
	// ErrUnavailable: the Store is down, or did not answer within its own timeout. If ctx ends
	// first, the error is that of ctx instead.
	ErrUnavailable = driver.ErrUnavailable
	// ErrFailClosed: the Store is down, and package failover was told to admit nothing then. The
	// error is an ErrUnavailable, too. Package gate answers 503.
	ErrFailClosed = driver.ErrFailClosed
)

// A RuleError is a fault of a field of a rule, with the texts Rule, Field and Reason. It is an
// [ErrInvalidRule] or an [ErrRuleConflict].
type RuleError = driver.RuleError
