package casstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/core/driver"
)

// ErrConflict is for errors of a database that says that it has changed nothing and that another attempt may succeed, such
// as a serialization failure or a deadlock. The Store repeats a Swap or an Update whose error wraps ErrConflict.
var ErrConflict = errors.New("casstore: nothing was changed")

// An Error describes why a decision failed. It wraps core.ErrUnavailable and the cause. Its text contains no key, unless
// that of the cause does.
type Error struct {
	// Cause is an error of the database, context.DeadlineExceeded, or [driver.ErrOverloaded] for a decision that was not sent
	// in time, for which nothing was charged.
	Cause   error
	Timeout time.Duration // the deadline of the Store

	round uint64
}

// Error returns a text that ends with that of the cause.
func (e *Error) Error() string {
	if e.Cause == context.DeadlineExceeded {
		return fmt.Sprintf("%v: no answer within %v", driver.ErrUnavailable, e.Timeout)
	}
	return fmt.Sprintf("%v: %v", driver.ErrUnavailable, e.Cause)
}

// Unwrap returns core.ErrUnavailable and the cause.
func (e *Error) Unwrap() []error { return []error{driver.ErrUnavailable, e.Cause} }

// RoundTrip returns the number of the round that other decisions shared, or 0: see [driver.ErrUnavailable].
func (e *Error) RoundTrip() uint64 { return e.round }

// failure returns the error of a call that failed in a round because of cause.
func (s *Store) failure(ctx context.Context, cause error, round uint64) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) { // its timer is about to run
		return context.DeadlineExceeded
	}
	s.stats.failed.Add(1)
	return &Error{Cause: cause, Timeout: s.timeout, round: round}
}
