package keyfunc_test

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/keyfunc"
)

var secret = []byte("0123456789abcdef0123456789abcdef")

// withSecret is a Keyfunc with one HMAC key.
func withSecret(*jwt.Token) (any, error) { return secret, nil }

// hs256 signs any two texts, so that tokens can be made that no library makes.
func hs256(key []byte, header, payload string) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

const goodHeader = `{"alg":"HS256","typ":"JWT"}`

// token is signed with secret; the claims are those in members and an exp.
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

// rsaKey is one for all tests, because making one takes a while.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// sign makes a token by the library.
func sign(t testing.TB, method jwt.SigningMethod, key any, claims jwt.Claims) string {
	t.Helper()
	token, err := jwt.NewWithClaims(method, claims).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func inAnHour() *jwt.NumericDate { return jwt.NewNumericDate(time.Now().Add(time.Hour)) }
