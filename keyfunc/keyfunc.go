package keyfunc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Func returns the key that a request is charged to.
//
// ctx is the context of the framework that serves the request. It may have more values than
// r.Context(): those of a *gin.Context are stored with Set. Only [ContextSubject] uses ctx.
//
// The key is not empty if the error is nil. The error is [ErrNoKey] if the request has no such
// identity; any other error means that the identity could not be determined. A Func must be safe
// for concurrent use.
type Func func(ctx context.Context, r *http.Request) (string, error)

// Constant returns the same key for all requests, for a limit of the whole system. The key never
// equals that of a user or an address. Constant panics if name is empty.
func Constant(name string) Func {
	if name == "" {
		panic("keyfunc: Constant: the name is empty")
	}
	key := "constant:" + name
	return func(context.Context, *http.Request) (string, error) { return key, nil }
}

// ErrNoKey is the error of a request that has no such identity. Test for it with [errors.Is]. The
// texts of the errors of this package contain nothing that the client has sent.
var ErrNoKey = errors.New("keyfunc: no key")

// ErrNoToken is the error of a request that has no valid token. An ErrNoToken is an [ErrNoKey] as
// well. A gate answers an ErrNoToken with 401, because the client can sign in, and any other
// ErrNoKey with 400.
var ErrNoToken = fmt.Errorf("%w: no valid token", ErrNoKey)

// errEmptyKey is the error of a Func that returned neither a key nor an error. With an empty key,
// all such requests would share one bucket.
var errEmptyKey = fmt.Errorf("%w: the key function returned an empty key", ErrNoKey)

// tokenError is an ErrNoToken with a reason. errors.Is and errors.As find the cause. The cause is
// not part of the text, because it may quote the token.
type tokenError struct {
	reason string
	cause  error
}

func (e *tokenError) Error() string { return ErrNoToken.Error() + ": " + e.reason }

func (e *tokenError) Is(target error) bool { return target == ErrNoToken || target == ErrNoKey }

func (e *tokenError) Unwrap() error { return e.cause }
