package keyfunc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// FirstOf returns the key of the first of fs that knows the request:
// FirstOf(user, ip) is the user where one is signed in, and the address
// otherwise. A request with an invalid token is so charged to its address: it
// neither goes free nor shares a bucket with other invalid ones. The token is
// verified all the same, also after the address has nothing left: to limit the
// verifications, have a limit by address in front (see gate.And).
//
// Only an error that is [ErrNoKey] (or an empty key) moves on to the next; any
// other error is returned at once, because falling back would hide a fault. If
// none knows, the error is the first that is [ErrNoToken], or else the first.
//
// FirstOf panics if fs is empty or holds nil.
func FirstOf(fs ...Func) Func {
	fs = checkFuncs("FirstOf", fs)
	return func(ctx context.Context, r *http.Request) (string, error) {
		var none error
		for _, f := range fs {
			key, err := call(ctx, f, r)
			if err == nil {
				return key, nil
			}
			if !errors.Is(err, ErrNoKey) {
				return "", err
			}
			if none == nil || errors.Is(err, ErrNoToken) && !errors.Is(none, ErrNoToken) {
				none = err
			}
		}
		return "", none
	}
}

// Join returns one key for each combination of the keys of fs: with
// Join(user, ip) a user has a bucket at every address. The key is "join:"
// followed by the length in bytes, a colon and the text of every part, so
// equal keys mean equal parts, whatever bytes the parts hold.
//
// Every part is needed: the error of the first that fails is the error of the
// Join, and an empty key counts as [ErrNoKey]. The parts after one that is
// [ErrNoToken] are found all the same; after any other error they are not.
//
// If some parts are known, the error carries a partial key of these, which is no
// key of any Join. A gate charges it to the limiter: of 1000 bad tokens from one
// address, Join(user, ip) has those beyond the limit answered 429 instead of 401.
// Every one of them is verified, though, in either order of the parts, and a good
// token has a bucket of its own. To limit the verifications, and the guessing, have
// a limit by address in front: see gate.And.
//
// Join panics if fs is empty or holds nil.
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
			// In a partial key "join?" stands in place of "join:", so that it never
			// equals a key, and "-" in place of a part that is missing.
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
			// A token has cost its verification already. After another error, as of an
			// address, a token that is verified might be charged to nobody.
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

// A partialError is the error of a Join of which some parts are known. Package gate
// finds PartialKey with errors.As. The key is not a part of the text.
type partialError struct {
	error
	key string
}

func (e *partialError) Unwrap() error { return e.error }

// PartialKey is the key of the parts that are known, and of no complete Join.
func (e *partialError) PartialKey() string { return e.key }

// call is f with the one promise enforced that a Func could silently break.
func call(ctx context.Context, f Func, r *http.Request) (string, error) {
	key, err := f(ctx, r)
	if err != nil {
		return "", err
	}
	if key == "" {
		return "", errEmptyKey
	}
	return key, nil
}

// checkFuncs returns a copy of fs, out of reach of a caller that passed a
// slice and changes it later.
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
