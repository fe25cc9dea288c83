package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/internal/sampler"
)

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
	if fault := configurationFault(e.Cause); fault != "" {
		return fmt.Sprintf("%v: redis: %s: %v", driver.ErrUnavailable, fault, e.Cause)
	}
	return fmt.Sprintf("%v: redis: %v", driver.ErrUnavailable, e.Cause)
}

// Unwrap returns core.ErrUnavailable and the cause.
func (e *Error) Unwrap() []error { return []error{driver.ErrUnavailable, e.Cause} }

// RoundTrip returns the number of the round trip that other decisions shared, or 0: see [driver.ErrUnavailable].
func (e *Error) RoundTrip() uint64 { return e.roundTrip }

// A sharedError is the error of all requests of a round trip.
type sharedError struct {
	error
	roundTrip uint64
}

// shared returns err, the error of a request, as a sharedError if the request was in a round trip
// with others that have the same error.
func shared(err error, roundTrip uint64) error {
	if _, own := err.(scriptError); err == nil || own || err == errReply || roundTrip == 0 {
		return err
	}
	return &sharedError{err, roundTrip}
}

func (e *sharedError) Unwrap() error { return e.error }

const (
	wrongUser    = "the user name or password is missing or wrong"
	noPermission = "the user lacks a permission"
	noLibrary    = "this server is no Redis: scripts have no library struct (as in miniredis); test with memstore or redistest"
)

// configurationFault names the fault of the configuration that caused err. It returns "" if the
// cause may be an outage. Before Redis 7.2, a script whose user lacks a permission fails with a
// text and no error code.
func configurationFault(err error) string {
	switch text := err.Error(); {
	case redis.IsAuthError(err):
		return wrongUser
	case redis.IsPermissionError(err),
		strings.Contains(text, "The user executing the script can't"),
		strings.Contains(text, "ACL failure in script"):
		return noPermission
	case strings.Contains(text, "nonexistent global variable 'struct'"):
		return noLibrary
	}
	return ""
}

// A faultLog logs faults of the configuration, at most one in a minute.
type faultLog struct{ *sampler.Sampler }

// log logs err if its cause is a fault of the configuration: such a fault does not end by itself,
// and package gate admits requests by default while it lasts.
func (f faultLog) log(ctx context.Context, err error) {
	fault := configurationFault(err)
	if fault == "" {
		return
	}
	if _, ok := f.Pass(); !ok {
		return
	}
	if fault != noLibrary {
		fault += "; see Permissions in the documentation of package redisstore"
	}
	slog.Default().LogAttrs(ctx, slog.LevelError, "weir: Redis rejects a command: "+fault, slog.String("error", err.Error()))
}

// didNotRun reports whether err proves that the command was not executed. Only then may the command
// be sent again; otherwise the event may be charged twice.
func didNotRun(err error) bool {
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial", errors.Is(err, errNotMerged):
		return true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return true
	}
	return redis.HasErrorPrefix(err, "BUSY") || redis.IsLoadingError(err) || redis.IsTryAgainError(err) || redis.IsClusterDownError(err) ||
		redis.IsMasterDownError(err) || redis.IsReadOnlyError(err) || redis.IsMaxClientsError(err)
}

// redirected reports whether err proves that a node of a Cluster did not execute a command, and
// that the ClusterClient may execute it elsewhere: the slot or, of a slot that moves, the key is on
// another node, or the node has left the Cluster.
func redirected(err error) bool {
	_, moved := redis.IsMovedError(err)
	_, ask := redis.IsAskError(err)
	return moved || ask || redis.IsTryAgainError(err) || errors.Is(err, redis.ErrClosed)
}

func noScript(err error) bool {
	return errors.Is(err, redis.ErrNoScript) || strings.HasPrefix(err.Error(), "NOSCRIPT")
}
