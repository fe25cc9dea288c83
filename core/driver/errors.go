package driver

import (
	"errors"
	"fmt"
)

// Categories of errors, for errors.Is. Package core has the ones that applications test for under
// the same names.
var (
	// ErrUnavailable: the Store could not decide in time, or at all.
	ErrUnavailable = errors.New("weir: store unavailable")
	// ErrFailClosed: the Store could not decide about a rule that admits nothing then. An error
	// that is an ErrFailClosed is an ErrUnavailable, too.
	ErrFailClosed = errors.New("weir: fail closed")
	// ErrInvalidCharge: a Store cannot take so many charges together. Nothing was taken.
	ErrInvalidCharge = errors.New("weir: invalid charge")
	// ErrInvalidRule: a rule cannot be run. The error is a *RuleError, where it is about one rule.
	ErrInvalidRule = errors.New("weir: invalid rule")
	// ErrRuleConflict: a Store already serves another rule of the same name. The error is a
	// *RuleError.
	ErrRuleConflict = errors.New("weir: conflicting rule")
	// ErrCorruptState: bytes are not a State.
	ErrCorruptState = errors.New("weir: corrupt state")
)

// A RuleError is a fault of a field of a rule.
type RuleError struct {
	Rule     string // the rule's name
	Field    string // "name", "limit", "events", "per", "burst", "sub-windows", "soft", "elastic", "algorithm" or "rules"
	Reason   string
	Category error // ErrInvalidRule or ErrRuleConflict
}

// Error is the text "weir: rule NAME: FIELD REASON".
func (e *RuleError) Error() string {
	return fmt.Sprintf("weir: rule %q: %s %s", e.Rule, e.Field, e.Reason)
}

// Unwrap returns the Category.
func (e *RuleError) Unwrap() error { return e.Category }
