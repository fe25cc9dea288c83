package keyfunc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/weir-go/weir/internal/requestbody"
)

// FirstOf returns a Func that calls fs in order and returns the first key that is found:
// FirstOf(user, ip) returns the key of the user if the token is valid, and of the address
// otherwise. A request with an invalid token is therefore charged to its address, and does not
// share a bucket with all other invalid tokens. The token is verified even if the limit of the
// address is exhausted. To limit the verifications, put a limit by address first (see gate.And).
//
// After an [ErrNoKey] or an empty key, the Func calls the next function. It returns any other error
// at once, because the next function would hide a fault. It also returns the error of a value that a
// handler might read although the function cannot use it: two Authorization header fields, a field, cookie
// or form field that occurs twice, a malformed body. Otherwise the handler would serve the request under
// the limit of the next function. For the same reason, a body in a format that [FormValue] or [JSONField] does
// not read is an error unless a later function reads it:
//
//	keyfunc.FirstOf(keyfunc.FormValue("user"), keyfunc.JSONField("user"), ip) // but XML has no key
//
// If no function finds a key, the error is the first [ErrNoToken], or else the first error.
//
// FirstOf panics if fs is empty or contains nil.
func FirstOf(fs ...Func) Func {
	fs = checkFuncs("FirstOf", fs)
	return func(ctx context.Context, r *http.Request) (string, error) {
		var none, unread error // unread is that of a body that no function has read
		var used func() bool   // since unread
		body := noBody
		for _, f := range fs {
			key, err := f(ctx, r)
			lookup, isLookup := err.(lookup)
			if isLookup {
				key, err = lookup.FindKey()
			}
			if err == nil && key == "" {
				err = errEmptyKey
			}
			switch goesOn := err != nil && errors.Is(err, ErrNoKey); {
			case goesOn && isUnusable(err):
				return "", err
			case !goesOn && unread != nil && !used() && (err == nil || errors.Is(err, ErrNotLimited)):
				return "", unread
			case !goesOn && isLookup:
				return "", lookup // in which the gate finds the plan of the key
			case !goesOn:
				return key, err
			}
			if none == nil || useOf(none) == unreadBody || errors.Is(err, ErrNoToken) && !errors.Is(none, ErrNoToken) {
				none = err
			}
			switch use := useOf(err); {
			case use == readBody:
				body, unread = readBody, nil
			case use == unreadBody && body == noBody:
				body, unread, used = unreadBody, err, requestbody.Watch(r)
			}
		}
		if body != useOf(none) { // for a FirstOf around this one
			return "", &useError{none, body}
		}
		return "", none
	}
}

// Join returns a Func with one key for each combination of the keys of fs: with Join(user, ip) a
// user has a bucket at every address. The key is "join:", followed by the length in bytes, a colon
// and the text of every part. Two keys are equal only if all their parts are equal.
//
// If a part is missing, the Func returns the error of the first missing part; an empty key counts
// as [ErrNoKey]. After an [ErrNoToken], the functions of the remaining parts are still called;
// after any other error they are not.
//
// If an address sends 1000 bad tokens, Join(user, ip) changes the response from 401 to 429 for the
// tokens beyond the limit: the error of a missing part contains a partial key of the known parts,
// here the address, and a gate charges it. A partial key never equals a complete key, so a valid token
// uses another bucket. All tokens are still verified, also with Join(ip, user). To limit how many
// tokens of one address are verified, and so how many it can guess, put a limit by address first (see
// gate.And).
//
// Join panics if fs is empty or contains nil.
func Join(fs ...Func) Func {
	fs = checkFuncs("Join", fs)
	return func(ctx context.Context, r *http.Request) (string, error) {
		key := append(make([]byte, 0, 128), "join:"...)
		known := false
		var failed error // of the first part that failed
		for _, f := range fs {
			part, err := call(ctx, f, r)
			if err == nil {
				known = true
				key = appendPart(key, part)
				continue
			}
			// A partial key has "join?" in place of "join:", so that it never equals a complete
			// key, and "-" in place of a missing part.
			if failed == nil {
				failed = err
				key[len("join")] = '?'
			}
			var partial *partialError
			if errors.As(err, &partial) { // a Join in a Join
				known = true
				key = appendPart(append(key, '?'), partial.key)
			} else {
				key = append(key, '-')
			}
			// After an ErrNoToken the token has been verified already, so the next parts are found
			// for the partial key. After any other error there may be no key to charge, and the
			// verification of a token in a later part would not be limited.
			if !errors.Is(err, ErrNoToken) {
				break
			}
		}
		switch {
		case failed == nil:
			return string(key), nil
		case known:
			return "", &partialError{failed, string(key)}
		}
		return "", failed
	}
}

func appendPart(key []byte, part string) []byte {
	key = strconv.AppendInt(key, int64(len(part)), 10)
	key = append(key, ':')
	return append(key, part...)
}

// A partialError is the error of a Join if only some of its parts are known. Package gate finds
// PartialKey with errors.As. The key is not part of the text.
type partialError struct {
	error
	key string
}

func (e *partialError) Unwrap() error { return e.error }

// PartialKey returns the key of the known parts.
func (e *partialError) PartialKey() string { return e.key }

// call returns the result of f, or an error if the key is empty.
func call(ctx context.Context, f Func, r *http.Request) (string, error) {
	key, err := f(ctx, r)
	if l, ok := err.(lookup); ok {
		err = fmt.Errorf("keyfunc: %w", l)
	}
	if err != nil {
		return "", err
	}
	if key == "" {
		return "", errEmptyKey
	}
	return key, nil
}

// A lookup is the error of the function of gate.Caller, by which the gate finds the key and its plan. The key of Join or
// Fold has no plan, so they return another error.
type lookup interface {
	error
	FindKey() (string, error)
}

// checkFuncs panics if fs is empty or contains nil. It returns a copy, so that a caller can change
// its slice later.
func checkFuncs(caller string, fs []Func) []Func {
	if len(fs) == 0 {
		panic("keyfunc: " + caller + ": no key function given")
	}
	for i, f := range fs {
		if f == nil {
			panic(fmt.Sprintf("keyfunc: %s: key function %d is nil", caller, i))
		}
	}
	return slices.Clone(fs)
}
