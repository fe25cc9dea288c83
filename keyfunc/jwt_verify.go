package keyfunc

import (
	"crypto/sha256"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// maxToken is the maximum length of a token, in bytes. Decoding a megabyte takes 70 ms.
const maxToken = 4 << 10

var errNoToken = &tokenError{reason: "the request has none"}

// verifier verifies tokens and returns their keys. It is safe for concurrent use.
type verifier struct {
	keyfunc jwt.Keyfunc
	parser  *jwt.Parser
	cache   *tokenCache  // nil without the option Cache
	warned  atomic.Int64 // when a line was logged last, in Unix seconds
}

func (v *verifier) key(token string) (string, error) {
	if token == "" {
		return "", errNoToken
	}
	if len(token) > maxToken {
		return "", &tokenError{reason: "longer than 4 KiB"}
	}
	if v.cache == nil {
		key, _, err := v.verify(token)
		return key, err
	}
	id := sha256.Sum256([]byte(token))
	now := time.Now()
	if key, ok := v.cache.get(id, now); ok {
		return key, nil
	}
	key, exp, err := v.verify(token)
	if err != nil {
		return "", err
	}
	v.cache.put(id, key, exp, now)
	return key, nil
}

// verify returns the key and the expiry of a token that passes every check. It checks the signature
// last, because the signature takes the most time.
func (v *verifier) verify(token string) (key string, exp time.Time, err error) {
	if err := v.checkText(token); err != nil {
		return "", time.Time{}, err
	}
	var rejected error // by a rule that package jwt does not have
	_, err = v.parser.ParseWithClaims(token, jwt.MapClaims{}, func(t *jwt.Token) (any, error) {
		if key, exp, rejected = inspect(t); rejected != nil {
			return nil, rejected
		}
		verificationKey, err := v.keyfunc(t)
		if err != nil {
			return nil, err
		}
		rejected = v.checkKeys(t.Method, verificationKey)
		return verificationKey, rejected
	})
	switch {
	case rejected != nil:
		return "", time.Time{}, rejected
	case err != nil:
		return "", time.Time{}, rejection(err)
	}
	return key, exp, nil
}

// checkText checks the JSON text of a token. It uses the decoder of package jwt, so that checkText
// and package jwt check the same bytes.
func (v *verifier) checkText(token string) error {
	parts := strings.SplitN(token, ".", 3)
	if len(parts) < 3 || strings.ContainsAny(token, "\r\n") { // the decoder would skip line breaks
		return errMalformed
	}
	for _, part := range parts[:2] {
		text, err := v.parser.DecodeSegment(part)
		if err != nil {
			return errMalformed
		}
		if err := checkObject(text); err != nil {
			return err
		}
	}
	return nil
}

// inspect returns the key and the expiry of a decoded token that is not verified yet.
func inspect(t *jwt.Token) (key string, exp time.Time, err error) {
	// RFC 7515 section 4.1.11: a token with an unknown extension is invalid. None is known here.
	if _, there := t.Header["crit"]; there {
		return "", time.Time{}, &tokenError{reason: "critical header parameter"}
	}
	claims := t.Claims.(jwt.MapClaims)
	if key, err = claimsKey(claims); err != nil {
		return "", time.Time{}, err
	}
	exp, ok := claimedDate(claims, "exp")
	if !ok || exp.Unix() == 0 {
		return "", time.Time{}, &tokenError{reason: "no usable expiry"}
	}
	if _, there := claims["nbf"]; there {
		if _, ok := claimedDate(claims, "nbf"); !ok {
			return "", time.Time{}, &tokenError{reason: "no usable not-before time"}
		}
	}
	return key, exp, nil
}

// checkKeys checks the result of the Keyfunc: a key, or all keys of a jwt.VerificationKeySet.
func (v *verifier) checkKeys(m jwt.SigningMethod, key any) error {
	keys := []jwt.VerificationKey{key}
	if set, ok := key.(jwt.VerificationKeySet); ok {
		keys = set.Keys
	}
	for _, k := range keys {
		if bad := checkKey(m, k); bad != nil {
			if bad != errBadKey {
				v.warn(bad)
			}
			return bad
		}
	}
	return nil
}

// warn logs an unusable key, which FirstOf would hide. It logs at most once a minute, because
// clients can cause the error as often as they like.
func (v *verifier) warn(err error) {
	now := time.Now().Unix()
	last := v.warned.Load()
	if now-last >= 60 && v.warned.CompareAndSwap(last, now) {
		slog.Warn("weir: the Keyfunc returned an unusable key", "error", err)
	}
}

// rejection wraps err, an error of package jwt. Its text is only the reason, because a Keyfunc may
// quote the token in the text of err.
func rejection(err error) error {
	for _, r := range jwtReasons {
		if errors.Is(err, r.is) {
			return &tokenError{reason: r.reason, cause: err}
		}
	}
	return &tokenError{reason: "invalid", cause: err}
}

var jwtReasons = []struct {
	is     error
	reason string
}{
	{jwt.ErrTokenMalformed, "malformed"},
	{jwt.ErrTokenUnverifiable, "no key to verify it with"},
	{jwt.ErrTokenSignatureInvalid, "signature or algorithm not accepted"},
	{jwt.ErrTokenExpired, "expired"},
	{jwt.ErrTokenNotValidYet, "not valid yet"},
	{jwt.ErrTokenInvalidIssuer, "wrong issuer"},
	{jwt.ErrTokenInvalidAudience, "wrong audience"},
	{jwt.ErrTokenRequiredClaimMissing, "required claim missing"},
}
