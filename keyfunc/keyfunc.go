package keyfunc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Func returns the key that a request is charged to. A Func must be safe for concurrent use.
//
// ctx is the context of the framework that serves the request. It may contain more values than
// r.Context(), for example those stored with Set of a *gin.Context. Only [ContextSubject] and
// [PathValue] use ctx.
//
// The key is not empty if the error is nil. The error is [ErrNoKey] if the request does not contain
// the address, token or other value for the key, and [ErrNotLimited] if the limiter does not apply
// to the request. Any other error means that the key could not be determined.
type Func func(ctx context.Context, r *http.Request) (string, error)

// Constant returns a Func with the same key for all requests, for a limit of the whole system. The
// key never equals the key of a user or an address. Constant panics if name is empty.
func Constant(name string) Func {
	if name == "" {
		panic("keyfunc: Constant: the name is empty")
	}
	key := "constant:" + name
	return func(context.Context, *http.Request) (string, error) { return key, nil }
}

// ErrNoKey means that the request contains nothing from which the Func can make a key. Test for it
// with [errors.Is]. A [NoKeyError] is an ErrNoKey with a text for the client. The error texts of this
// package contain nothing that the client has sent.
var ErrNoKey = errors.New("keyfunc: no key")

// ErrNoToken means that the request contains no valid token, or for [BasicAuthUser] no user name.
// An ErrNoToken is an [ErrNoKey] as well. A gate responds to an ErrNoToken with 401, because the client can sign in, and to any other
// ErrNoKey with 400.
var ErrNoToken = fmt.Errorf("%w: no valid token", ErrNoKey)

// ErrNotLimited means that the caller has no limit, for example because it is an administrator. A
// gate then ignores the limiter of the Func and applies its other limiters. If no limiter is left,
// the request is let through without RateLimit fields. [FirstOf] returns the ErrNotLimited of a
// function if no function before it has found a key. [Join] returns that of a part if no part before
// it has returned an [ErrNoToken]. A Func that returns ErrNotLimited because of a header field, such as for a
// request without a token, needs another limiter beside its own, such as one for each address, because
// clients choose the fields. An error that is also an [ErrNoKey] does not count as ErrNotLimited.
var ErrNotLimited = errors.New("keyfunc: the caller is not limited")

// errEmptyKey is the error of a Func that returned neither a key nor an error. With an empty key,
// all such requests would share one bucket.
var errEmptyKey = fmt.Errorf("%w: the key function returned an empty key", ErrNoKey)

// tokenError is an ErrNoToken with a reason. errors.Is and errors.As find the cause. The cause is
// not part of the text, because it may quote the token.
type tokenError struct {
	reason   string
	cause    error
	unusable bool // as in a NoKeyError
}

// with returns a copy of e with a cause.
func (e *tokenError) with(cause error) *tokenError {
	caused := *e
	caused.cause = cause
	return &caused
}

func (e *tokenError) Error() string { return ErrNoToken.Error() + ": " + e.reason }

func (e *tokenError) Is(target error) bool { return target == ErrNoToken || target == ErrNoKey }

func (e *tokenError) Unwrap() error { return e.cause }
