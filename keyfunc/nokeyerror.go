package keyfunc

import "errors"

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
}

// unusable returns an error for a value that is there, but which the handler might read in another way.
func unusable(detail string) *NoKeyError { return &NoKeyError{Detail: detail, unusable: true} }

// isUnusable reports whether err is about a value that is there, but which the handler might read in
// another way.
func isUnusable(err error) bool {
	var noKey *NoKeyError
	return errors.As(err, &noKey) && noKey.unusable || errors.Is(err, errSeveral)
}

// Error returns the text of [ErrNoKey], a colon and Detail.
func (e *NoKeyError) Error() string {
	if e.Detail == "" {
		return ErrNoKey.Error()
	}
	return ErrNoKey.Error() + ": " + e.Detail
}

// Is reports whether target is [ErrNoKey].
func (e *NoKeyError) Is(target error) bool { return target == ErrNoKey }
