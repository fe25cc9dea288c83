package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
)

// An Error is a decision that failed: errors.Is finds [core.ErrUnavailable] and
// the cause in it. It holds no key.
type Error struct {
	Cause   error         // of go-redis, or context.DeadlineExceeded
	Timeout time.Duration // the deadline of the Store
}

func (e *Error) Error() string {
	if e.Cause == context.DeadlineExceeded {
		return fmt.Sprintf("%v: redis: no answer within %v", core.ErrUnavailable, e.Timeout)
	}
	return fmt.Sprintf("%v: redis: %v", core.ErrUnavailable, e.Cause)
}

// Unwrap gives core.ErrUnavailable and the cause.
func (e *Error) Unwrap() []error { return []error{core.ErrUnavailable, e.Cause} }

// errReply is a reply that no script of this package gives.
var errReply = errors.New("the reply does not have the shape of a decision")

// didNotRun says whether err proves that the command was not executed. Only
// then may it be sent again: one that may have run may have charged.
func didNotRun(err error) bool {
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial", err == errPipelineClosed:
		return true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return true
	}
	return redis.IsLoadingError(err) || redis.IsTryAgainError(err) || redis.IsClusterDownError(err) ||
		redis.IsMasterDownError(err) || redis.IsReadOnlyError(err) || redis.IsMaxClientsError(err)
}

func noScript(err error) bool {
	return errors.Is(err, redis.ErrNoScript) || err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT")
}
