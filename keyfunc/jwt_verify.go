package keyfunc

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

var (
	errNoToken   = &tokenError{reason: "the request has none"}
	errLongToken = &tokenError{reason: "longer than 4 KiB"}
)

// content is the part of a valid token that Funcs use.
type content struct {
	user   string   // the key of the user
	claims []string // the claims that Funcs return; "" if absent or unusable
	exp    time.Time
}

// verifier verifies tokens. It is safe for concurrent use.
type verifier struct {
	keyfunc jwt.Keyfunc
	parser  *jwt.Parser
	warned  atomic.Int64 // when a line was logged last, in Unix seconds
}

// verify returns the content of a token that passes every check, with the claims of these names. It
// checks the signature last, because the signature takes the most time.
func (v *verifier) verify(token string, claims []string) (content, error) {
	if err := v.checkText(token); err != nil {
		return content{}, err
	}
	var c content
	var rejected error // by a rule that package jwt does not have
	_, err := v.parser.ParseWithClaims(token, jwt.MapClaims{}, func(t *jwt.Token) (any, error) {
		if c, rejected = inspect(t, claims); rejected != nil {
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
		return content{}, rejected
	case err != nil:
		return content{}, rejection(err)
	}
	return c, nil
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

// inspect returns the content of a decoded token that is not verified yet.
func inspect(t *jwt.Token, names []string) (content, error) {
	// RFC 7515 section 4.1.11: a token with an unknown extension is invalid. None is known here.
	if _, there := t.Header["crit"]; there {
		return content{}, &tokenError{reason: "critical header parameter"}
	}
	claims := t.Claims.(jwt.MapClaims)
	user, err := claimsKey(claims)
	if err != nil {
		return content{}, err
	}
	exp, ok := claimedDate(claims, "exp")
	if !ok || exp.Unix() == 0 {
		return content{}, &tokenError{reason: "no usable expiry"}
	}
	if _, there := claims["nbf"]; there {
		if _, ok := claimedDate(claims, "nbf"); !ok {
			return content{}, &tokenError{reason: "no usable not-before time"}
		}
	}
	return content{user, claimedTexts(claims, names), exp}, nil
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
