package keyfunc_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"unsafe"

	"github.com/weir-go/weir/keyfunc"
)

// request is a request from peer with header lines of the form "Name: value".
func request(peer string, lines ...string) *http.Request {
	r := &http.Request{Method: http.MethodGet, RemoteAddr: peer, Header: http.Header{}}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

func ask(f keyfunc.Func, r *http.Request) (string, error) { return f(r.Context(), r) }

func wantKey(t *testing.T, f keyfunc.Func, r *http.Request, want string) {
	t.Helper()
	got, err := ask(f, r)
	if err != nil || got != want {
		t.Errorf("key = %q, %v; want %q", got, err, want)
	}
}

// wantError checks that there is no key, and that the error is target.
func wantError(t *testing.T, f keyfunc.Func, r *http.Request, target error) {
	t.Helper()
	got, err := ask(f, r)
	if got != "" || !errors.Is(err, target) {
		t.Errorf("key = %q, %v; want no key and error %q", got, err, target)
	}
}

// wantMalformed checks that a request has no key, which is not for want of a token.
func wantMalformed(t *testing.T, f keyfunc.Func, r *http.Request) {
	t.Helper()
	wantError(t, f, r, keyfunc.ErrNoKey)
	if _, err := ask(f, r); errors.Is(err, keyfunc.ErrNoToken) {
		t.Errorf("error %v is ErrNoToken; want a plain ErrNoKey", err)
	}
}

// wantRefusal checks that a request has no key for want of a valid token, for this reason.
func wantRefusal(t *testing.T, f keyfunc.Func, r *http.Request, reason string) {
	t.Helper()
	wantError(t, f, r, keyfunc.ErrNoToken)
	wantError(t, f, r, keyfunc.ErrNoKey)
	if _, err := ask(f, r); err == nil || err.Error() != "keyfunc: no key: no valid token: "+reason {
		t.Errorf("error %v; want the reason %q", err, reason)
	}
}

// wantPanic checks that f panics with a text that begins with prefix.
func wantPanic(t *testing.T, prefix string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		text, ok := recover().(string)
		if !ok || !strings.HasPrefix(text, prefix) {
			t.Errorf("panic = %q; want one that begins with %q", text, prefix)
		}
	}()
	f()
}

// constant is a Func that knows everybody by the same key.
func constant(key string) keyfunc.Func {
	return func(context.Context, *http.Request) (string, error) { return key, nil }
}

// failing is a Func that knows nobody.
func failing(err error) keyfunc.Func {
	return func(context.Context, *http.Request) (string, error) { return "", err }
}

// overlaps reports whether a and b share memory.
func overlaps(a, b string) bool {
	pa, pb := uintptr(unsafe.Pointer(unsafe.StringData(a))), uintptr(unsafe.Pointer(unsafe.StringData(b)))
	return pa < pb+uintptr(len(b)) && pb < pa+uintptr(len(a))
}
