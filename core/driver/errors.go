package driver

import (
	"errors"
	"fmt"
)

// Categories of errors, for errors.Is. Package core exports some of them under the same names.
var (
	// ErrUnavailable reports that the Store could not decide in time, or at all. If several decisions share
	// a round trip, its error can have a method RoundTrip() uint64 with a number of it, or 0: package
	// failover then counts the errors of one round trip as one failure.
	ErrUnavailable = errors.New("weir: store unavailable")
	// ErrOverloaded reports that a decision waited for too many others to be decided in time. Nothing was
	// charged, except perhaps on another server, if the keys are on several. The error is an
	// ErrUnavailable, too. Package failover calls its backup, and does not count the error as a failure of
	// the Store.
	ErrOverloaded = errors.New("weir: store overloaded")
	// ErrFailClosed reports that the Store could not decide about a rule that is configured to fail
	// closed. The error is an ErrUnavailable, too.
	ErrFailClosed = errors.New("weir: fail closed")
	// ErrInvalidCharge reports charges that violate the contract of [Store]. Nothing was
	// charged.
	ErrInvalidCharge = errors.New("weir: invalid charge")
	// ErrInvalidRule reports an invalid rule. The error is a *RuleError if it is about one rule.
	ErrInvalidRule = errors.New("weir: invalid rule")
	// ErrRuleConflict reports different rules with one name. The error is a *RuleError.
	ErrRuleConflict = errors.New("weir: conflicting rule")
)

// A RuleError describes a field of a rule that is invalid or in conflict.
type RuleError struct {
	Rule     string // the rule's name
	Field    string // a property of [Kind.Check], or "name", "algorithm", "events", "rules" or "unit"
	Reason   string
	Category error // ErrInvalidRule or ErrRuleConflict
}

// Error returns the text "weir: rule NAME: FIELD REASON".
func (e *RuleError) Error() string {
	return fmt.Sprintf("weir: rule %q: %s %s", e.Rule, e.Field, e.Reason)
}

// Unwrap returns the Category.
func (e *RuleError) Unwrap() error { return e.Category }
