package keyfunc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Func returns the key that a request is charged to.
//
// ctx is the context of the framework that serves the request, which may hold
// more than r.Context(): a *gin.Context is a context whose values are what
// handlers stored with Set. Only [ContextSubject] looks at it.
//
// The key is never empty when the error is nil. An error that is [ErrNoKey]
// says that the request carries no such identity; any other error says that
// the identity could not be established. The Funcs of this package are safe
// for concurrent use, and a Func of your own has to be.
type Func func(ctx context.Context, r *http.Request) (string, error)

// Constant is one key for all requests: a limit for the whole system. It is
// never the key of a user or an address. Constant panics if name is empty.
func Constant(name string) Func {
	if name == "" {
		panic("keyfunc: Constant: the name is empty")
	}
	key := "constant:" + name
	return func(context.Context, *http.Request) (string, error) { return key, nil }
}

// ErrNoKey is the category of every error that says: this request has no such
// identity. Test for it with [errors.Is]. The text of an error of this package
// holds nothing that the client sent.
var ErrNoKey = errors.New("keyfunc: no key")

// ErrNoToken marks the errors that say: this request has no valid token. Each
// is [ErrNoKey] as well. It is what tells a missing sign-in, which HTTP
// answers with 401, from a request that cannot be attributed at all.
var ErrNoToken = fmt.Errorf("%w: no valid token", ErrNoKey)

// errEmptyKey stands in for a Func that returned neither a key nor an error,
// for an empty key would be one bucket for everybody it happens to.
var errEmptyKey = fmt.Errorf("%w: the key function returned an empty key", ErrNoKey)

// tokenError is an ErrNoToken with its reason. The cause can be examined with
// errors.Is and errors.As but is not part of the text: it may quote the token.
type tokenError struct {
	reason string
	cause  error
}

func (e *tokenError) Error() string { return ErrNoToken.Error() + ": " + e.reason }

func (e *tokenError) Is(target error) bool { return target == ErrNoToken || target == ErrNoKey }

func (e *tokenError) Unwrap() error { return e.cause }
