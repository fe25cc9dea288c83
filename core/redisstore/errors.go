package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/internal/pipe"
)

// ErrOverloaded reports that a decision was not sent, and that nothing was charged, except perhaps
// in another hash slot of a Cluster: it could not have been answered before its deadline, or had
// waited for half of its time, because others were before it; or its context ends sooner than a
// round trip takes; or too many decisions waited. The error is a core.ErrUnavailable, too. Package
// failover calls its backup, and does not count the error as a failure of Redis.
var ErrOverloaded = driver.ErrOverloaded

// An Error describes why a decision failed. It wraps core.ErrUnavailable and the cause. Its text
// does not contain the key.
type Error struct {
	Cause   error         // an error of go-redis, or context.DeadlineExceeded
	Timeout time.Duration // the deadline of the Store

	roundTrip uint64
}

func (e *Error) Error() string {
	if e.Cause == context.DeadlineExceeded {
		return fmt.Sprintf("%v: redis: no answer within %v", driver.ErrUnavailable, e.Timeout)
	}
	if fault := pipe.ConfigurationFault(e.Cause); fault != "" {
		return fmt.Sprintf("%v: redis: %s: %v", driver.ErrUnavailable, fault, e.Cause)
	}
	return fmt.Sprintf("%v: redis: %v", driver.ErrUnavailable, e.Cause)
}

// Unwrap returns core.ErrUnavailable and the cause.
func (e *Error) Unwrap() []error { return []error{driver.ErrUnavailable, e.Cause} }

// RoundTrip returns the number of the round trip that other decisions shared, or 0: see [driver.ErrUnavailable].
func (e *Error) RoundTrip() uint64 { return e.roundTrip }
