package pipe

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core/driver"
	"github.com/weir-go/weir/core/redisstore/internal/wire"
	"github.com/weir-go/weir/internal/sampler"
)

// A SharedError is the error of all jobs of a round trip. Each round trip of a process has another number.
type SharedError struct {
	Err       error
	RoundTrip uint64
}

func (e *SharedError) Error() string { return e.Err.Error() }

func (e *SharedError) Unwrap() error { return e.Err }

// shared returns err, the error of a job, as a SharedError if the job was in a round trip
// with others that have the same error.
func shared(err error, roundTrip uint64) error {
	if _, own := err.(wire.ScriptError); err == nil || own || err == wire.ErrReply || roundTrip == 0 {
		return err
	}
	return &SharedError{err, roundTrip}
}

// The faults of the configuration that are the cause of an error.
const (
	WrongUser    = "the user name or password is missing or wrong"
	NoPermission = "the user lacks a permission"
	NoLibrary    = "this server is no Redis: scripts have no library struct (as in miniredis); test with memstore or redistest"
)

// ConfigurationFault names the fault of the configuration that caused err. It returns "" if the
// cause may be an outage. Before Redis 7.2, a script whose user lacks a permission fails with a
// text and no error code.
func ConfigurationFault(err error) string {
	if isOwn(err) {
		return ""
	}
	switch text := err.Error(); {
	case redis.IsAuthError(err):
		return WrongUser
	case redis.IsPermissionError(err),
		strings.Contains(text, "The user executing the script can't"),
		strings.Contains(text, "ACL failure in script"):
		return NoPermission
	case strings.Contains(text, "nonexistent global variable 'struct'"):
		return NoLibrary
	}
	return ""
}

// A FaultLog logs faults of the configuration, as often as its Sampler lets them pass.
type FaultLog struct{ *sampler.Sampler }

// Log logs err if its cause is a fault of the configuration: such a fault does not end by itself,
// and package gate admits requests by default while it lasts.
func (f FaultLog) Log(ctx context.Context, err error) {
	fault := ConfigurationFault(err)
	if fault == "" {
		return
	}
	if _, ok := f.Pass(); !ok {
		return
	}
	if fault != NoLibrary {
		fault += "; see Permissions in the documentation of package redisstore"
	}
	slog.Default().LogAttrs(ctx, slog.LevelError, "weir: Redis rejects a command: "+fault, slog.String("error", err.Error()))
}

// isOwn reports whether err is that of a job that this process has given up, without a look at its chain: under overload,
// these are the most frequent errors.
func isOwn(err error) bool {
	return err == driver.ErrOverloaded || err == context.DeadlineExceeded || err == context.Canceled
}

// didNotRun reports whether err proves that the command was not executed. Only then may the command
// be sent again; otherwise the event may be charged twice.
func didNotRun(err error) bool {
	if isOwn(err) {
		return false
	}
	op, isOp := errors.AsType[*net.OpError](err)
	switch {
	case isOp && op.Op == "dial", errors.Is(err, errNotMerged):
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
