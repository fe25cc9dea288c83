package keyfunc

import (
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/internal/sampler"
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

	failed, unusable *sampler.Sampler // of the log
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
			if !errors.Is(err, ErrNoKey) {
				warn(v.failed, "weir: the Keyfunc has failed, so a token counts as invalid", withoutToken(err.Error(), token))
			}
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
			return errMalformed.with(err)
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
				warn(v.unusable, "weir: the Keyfunc returned an unusable key", bad.Error())
			}
			return bad
		}
	}
	return nil
}

// warn logs a fault of the Keyfunc, which FirstOf would hide. It logs at most once a minute, because
// clients can cause the fault as often as they like, and counts the faults in between.
func warn(s *sampler.Sampler, msg, text string) {
	if suppressed, ok := s.Pass(); ok {
		slog.Warn(msg, "error", text, "suppressed", suppressed)
	}
}

// withoutToken returns the text of an error of the Keyfunc without the token and its parts, which the
// Keyfunc may have quoted.
func withoutToken(text, token string) string {
	for _, part := range append([]string{token}, strings.Split(token, ".")...) {
		if part != "" {
			text = strings.ReplaceAll(text, part, "[token]")
		}
	}
	return text
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
