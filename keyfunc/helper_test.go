package keyfunc_test

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/keyfunc"
)

// request returns a request from peer with header lines of the form "Name: value".
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

// wantMalformed checks that the error is ErrNoKey and not ErrNoToken.
func wantMalformed(t *testing.T, f keyfunc.Func, r *http.Request) {
	t.Helper()
	wantError(t, f, r, keyfunc.ErrNoKey)
	if _, err := ask(f, r); errors.Is(err, keyfunc.ErrNoToken) {
		t.Errorf("error %v is ErrNoToken; want a plain ErrNoKey", err)
	}
}

// wantNoToken checks that the error is ErrNoToken with this reason.
func wantNoToken(t *testing.T, f keyfunc.Func, r *http.Request, reason string) {
	t.Helper()
	wantError(t, f, r, keyfunc.ErrNoToken)
	wantError(t, f, r, keyfunc.ErrNoKey)
	if _, err := ask(f, r); err == nil || err.Error() != "keyfunc: no key: no valid token: "+reason {
		t.Errorf("error %v; want the reason %q", err, reason)
	}
}

// constant returns a Func with the same key for all requests.
func constant(key string) keyfunc.Func {
	return func(context.Context, *http.Request) (string, error) { return key, nil }
}

// failing returns a Func that always returns err.
func failing(err error) keyfunc.Func {
	return func(context.Context, *http.Request) (string, error) { return "", err }
}

// overlaps reports whether a and b share memory.
func overlaps(a, b string) bool {
	pa, pb := uintptr(unsafe.Pointer(unsafe.StringData(a))), uintptr(unsafe.Pointer(unsafe.StringData(b)))
	return pa < pb+uintptr(len(b)) && pb < pa+uintptr(len(a))
}

var secret = []byte("0123456789abcdef0123456789abcdef")

// withSecret is a Keyfunc that returns secret.
var withSecret = returning(secret)

// returning returns a Keyfunc that returns key.
func returning(key any) jwt.Keyfunc { return func(*jwt.Token) (any, error) { return key, nil } }

// must returns the key that a function of the crypto packages has made.
func must[K any](key K, err error) K {
	if err != nil {
		panic(err)
	}
	return key
}

// hs256 signs any two texts, also those that no library would sign.
func hs256(key []byte, header, payload string) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

const goodHeader = `{"alg":"HS256","typ":"JWT"}`

// token returns a token that is signed with secret. Its claims are those in members and an exp.
func token(members string) string {
	if members != "" {
		members += ","
	}
	return hs256(secret, goodHeader, fmt.Sprintf(`{%s"exp":%d}`, members, time.Now().Add(time.Hour).Unix()))
}

func bearer(token string) *http.Request { return request("", "Authorization: Bearer "+token) }

func userFunc(opts ...keyfunc.JWTOption) keyfunc.Func {
	return keyfunc.JWTSubject(withSecret, []string{"HS256"}, opts...)
}

// rsaKey is shared by all tests, because making a key takes a while.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })

// sign makes a token with package jwt.
func sign(t testing.TB, method jwt.SigningMethod, key any, claims jwt.Claims) string {
	t.Helper()
	token, err := jwt.NewWithClaims(method, claims).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func inAnHour() *jwt.NumericDate { return jwt.NewNumericDate(time.Now().Add(time.Hour)) }
