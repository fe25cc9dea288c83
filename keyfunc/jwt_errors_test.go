package keyfunc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/keyfunc"
)

func TestTokenErrors(t *testing.T) {
	const mark = "SENTINEL"
	cause := errors.New("unknown kid " + mark)
	broken := func(*jwt.Token) (any, error) { return nil, cause }
	exp := inAnHour().Unix()
	for _, c := range []struct {
		name   string
		f      keyfunc.Func
		token  string
		reason string
		is     error
	}{
		{"malformed", userFunc(), mark, "malformed", nil},
		{"expired", userFunc(), hs256(secret, goodHeader, `{"sub":"`+mark+`","exp":1}`), "expired", jwt.ErrTokenExpired},
		{"early", userFunc(), hs256(secret, goodHeader, fmt.Sprintf(`{"sub":"`+mark+`","exp":%d,"nbf":%d}`, exp, exp)), "not valid yet", jwt.ErrTokenNotValidYet},
		{"signature", userFunc(), hs256([]byte("x"), goodHeader, fmt.Sprintf(`{"sub":"`+mark+`","exp":%d}`, exp)), "signature or algorithm not accepted", jwt.ErrTokenSignatureInvalid},
		{"algorithm", userFunc(), hs256(secret, `{"alg":"RS256"}`, fmt.Sprintf(`{"sub":"`+mark+`","exp":%d}`, exp)), "signature or algorithm not accepted", jwt.ErrTokenSignatureInvalid},
		{"unknown algorithm", userFunc(), hs256(secret, `{"alg":"`+mark+`"}`, fmt.Sprintf(`{"sub":"a","exp":%d}`, exp)), "no key to verify it with", jwt.ErrTokenUnverifiable},
		{"issuer", userFunc(keyfunc.Issuer("i")), token(`"sub":"a","iss":"` + mark + `"`), "wrong issuer", jwt.ErrTokenInvalidIssuer},
		{"no issuer", userFunc(keyfunc.Issuer("i")), token(`"sub":"a"`), "required claim missing", jwt.ErrTokenRequiredClaimMissing},
		{"audience", userFunc(keyfunc.Audience("a")), token(`"sub":"a","aud":"` + mark + `"`), "wrong audience", jwt.ErrTokenInvalidAudience},
		{"audience of another type", userFunc(keyfunc.Audience("a")), token(`"sub":"a","aud":["` + mark + `",7]`), "invalid", jwt.ErrInvalidType},
		{"Keyfunc", keyfunc.JWTSubject(broken, []string{"HS256"}), token(`"sub":"a"`), "no key to verify it with", cause},
		{"repeated", userFunc(), token(`"` + mark + `":1,"` + mark + `":2,"sub":"a"`), "repeated member", nil},
		{"subject", userFunc(), token(`"sub":["` + mark + `"]`), "no subject", nil},
		{"no expiry", userFunc(), hs256(secret, goodHeader, `{"sub":"`+mark+`"}`), "no usable expiry", nil},
		{"zero expiry", userFunc(), hs256(secret, goodHeader, `{"sub":"`+mark+`","exp":0.9}`), "no usable expiry", nil},
		{"crit", userFunc(), hs256(secret, `{"alg":"HS256","crit":["`+mark+`"]}`, `{"sub":"a","exp":4000000000}`), "critical header parameter", nil},
		{"empty key", keyfunc.JWTSubject(func(*jwt.Token) (any, error) { return []byte{}, nil }, []string{"HS256"}), token(`"sub":"a"`), "unusable verification key", nil},
		{"long", userFunc(), strings.Repeat(mark, 1000), "longer than 4 KiB", nil},
		{"claims", userFunc(), token(`"sub":"a","x":"` + mark), "malformed", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ask(c.f, bearer(c.token))
			if err == nil || err.Error() != "keyfunc: no key: no valid token: "+c.reason {
				t.Fatalf("error %v; want the reason %q", err, c.reason)
			}
			if !errors.Is(err, keyfunc.ErrNoToken) || !errors.Is(err, keyfunc.ErrNoKey) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("error %v is not of its kinds", err)
			}
			if strings.Contains(err.Error(), mark) || strings.Contains(err.Error(), c.token) {
				t.Errorf("error %q quotes the token", err)
			}
		})
	}
	if errors.Is(keyfunc.ErrNoKey, keyfunc.ErrNoToken) || !errors.Is(keyfunc.ErrNoToken, keyfunc.ErrNoKey) {
		t.Error("ErrNoToken is to be a kind of ErrNoKey, not the other way round")
	}
}

// A panic of the application's is the application's to see, and it leaves no
// lock behind.
func TestPanicInKeyfuncPropagates(t *testing.T) {
	panics := true
	f := keyfunc.JWTSubject(func(*jwt.Token) (any, error) {
		if panics {
			panic("mine")
		}
		return secret, nil
	}, []string{"HS256"}, keyfunc.Cache(1))
	r := bearer(token(`"sub":"alice"`))
	wantPanic(t, "mine", func() { _, _ = f(context.Background(), r) })
	panics = false
	wantKey(t, f, r, "user:alice")
}

// A Keyfunc written for jwt.Parse sees what jwt.Parse would show it.
func TestKeyfuncGetsMapClaims(t *testing.T) {
	f := keyfunc.JWTSubject(func(token *jwt.Token) (any, error) {
		if iss, _ := token.Claims.(jwt.MapClaims)["iss"].(string); iss != "i" || token.Header["alg"] != "HS256" || token.Valid {
			return nil, errors.New("unknown issuer")
		}
		return secret, nil
	}, []string{"HS256"})
	wantKey(t, f, bearer(token(`"sub":"alice","iss":"i"`)), "user@1:i:alice")
	wantError(t, f, bearer(token(`"sub":"alice","iss":"j"`)), keyfunc.ErrNoToken)
}
