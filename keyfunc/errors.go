package keyfunc

import (
	"errors"
	"fmt"
)

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

// A NoKeyError is an [ErrNoKey] with a text for the client. A gate may send Detail in the body of
// its response with status 400. The functions of this package use it for values that a client can
// add or correct, and own key functions may return it:
//
//	return "", &keyfunc.NoKeyError{Detail: "no API key in X-API-Key"}
//
// [errors.As] finds a *NoKeyError, and errors.Is(err, ErrNoKey) is true for it. An [ErrNoToken] is
// no NoKeyError.
type NoKeyError struct {
	// Detail says which value is missing or invalid. It is a phrase without a period at its end, and
	// must not contain any text of the request or of another error. "" means no text.
	Detail string

	unusable bool // a handler might find another value than the Func, so FirstOf must not go on
	body     bodyUse
	cause    error // for errors.Is and errors.As; not a part of the text
}

// A bodyUse is the use that a Func has made of the body of a request that has no value for it.
type bodyUse int

const (
	noBody     bodyUse = iota // there is none, or the Func does not use bodies
	readBody                  // the Func has read all of it
	unreadBody                // it has a format that the Func does not read
)

// unusable returns an error for a value that is there, but which the handler might read in another way.
func unusable(detail string) *NoKeyError { return &NoKeyError{Detail: detail, unusable: true} }

// about returns a copy of e about a body.
func (e *NoKeyError) about(use bodyUse) *NoKeyError {
	used := *e
	used.body = use
	return &used
}

// isUnusable reports whether err is about a value that is there, but which the handler might read in
// another way.
func isUnusable(err error) bool {
	var (
		noKey   *NoKeyError
		noToken *tokenError
	)
	return errors.As(err, &noKey) && noKey.unusable || errors.As(err, &noToken) && noToken.unusable
}

// A useError is an error with the use that several Funcs have made of the body.
type useError struct {
	error
	body bodyUse
}

func (e *useError) Unwrap() error { return e.error }

// useOf returns the use of the body that has led to err.
func useOf(err error) bodyUse {
	var (
		several *useError
		noKey   *NoKeyError
	)
	switch {
	case errors.As(err, &several):
		return several.body
	case errors.As(err, &noKey):
		return noKey.body
	}
	return noBody
}

// Error returns the text of [ErrNoKey], a colon and Detail.
func (e *NoKeyError) Error() string {
	if e.Detail == "" {
		return ErrNoKey.Error()
	}
	return ErrNoKey.Error() + ": " + e.Detail
}

// Unwrap returns the cause, such as an [*http.MaxBytesError], or nil.
func (e *NoKeyError) Unwrap() error { return e.cause }

// Is reports whether target is [ErrNoKey].
func (e *NoKeyError) Is(target error) bool { return target == ErrNoKey }

// tokenError is an ErrNoToken with a reason. errors.Is and errors.As find the cause. The cause is
// not part of the text, because it may quote the token.
type tokenError struct {
	reason   string
	cause    error
	unusable bool // as in a NoKeyError
}

func (e *tokenError) Error() string { return ErrNoToken.Error() + ": " + e.reason }

func (e *tokenError) Is(target error) bool { return target == ErrNoToken || target == ErrNoKey }

func (e *tokenError) Unwrap() error { return e.cause }
