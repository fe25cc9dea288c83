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
// neither goes free nor shares a bucket with other invalid ones.
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
// Join, and an empty key counts as [ErrNoKey].
//
// Join panics if fs is empty or holds nil.
func Join(fs ...Func) Func {
	fs = checkFuncs("Join", fs)
	return func(ctx context.Context, r *http.Request) (string, error) {
		key := append(make([]byte, 0, 128), "join:"...)
		for _, f := range fs {
			part, err := call(ctx, f, r)
			if err != nil {
				return "", err
			}
			key = strconv.AppendInt(key, int64(len(part)), 10)
			key = append(key, ':')
			key = append(key, part...)
		}
		return string(key), nil
	}
}

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
