// Package token verifies JSON Web Tokens (RFC 7519) for key functions.
package token

import (
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/internal/sampler"
)

// An Error is the reason why a token is not valid. errors.Is and errors.As find the cause. The cause is
// not part of the text, because it may quote the token.
type Error struct {
	reason string
	cause  error
}

// with returns a copy of e with a cause.
func (e *Error) with(cause error) *Error { return &Error{e.reason, cause} }

// Error returns the reason.
func (e *Error) Error() string { return e.reason }

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error { return e.cause }

// Content is the part of a valid token that key functions use.
type Content struct {
	Issuer, Subject string
	Claims          []string // the texts of the claims that Verify was asked for; "" if absent or unusable
	Expiry          time.Time
}

// A Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	keyfunc jwt.Keyfunc
	silent  error
	parser  *jwt.Parser

	failed, unusable *sampler.Sampler // of the log
}

// New returns a Verifier with the keys of kf, which logs the errors of kf that are not silent.
func New(kf jwt.Keyfunc, silent error, parser *jwt.Parser) *Verifier {
	return &Verifier{kf, silent, parser, sampler.New(1, time.Minute), sampler.New(1, time.Minute)}
}

// Verify returns the content of a token that passes every check, with the claims of these names, or an [Error].
// It checks the signature last, because the signature takes the most time.
func (v *Verifier) Verify(token string, claims []string) (Content, error) {
	if err := v.checkText(token); err != nil {
		return Content{}, err
	}
	var c Content
	var rejected error // by a rule that package jwt does not have
	_, err := v.parser.ParseWithClaims(token, jwt.MapClaims{}, func(t *jwt.Token) (any, error) {
		if c, rejected = inspect(t, claims); rejected != nil {
			return nil, rejected
		}
		verificationKey, err := v.keyfunc(t)
		if err != nil {
			if !errors.Is(err, v.silent) {
				warn(v.failed, "weir: the Keyfunc has failed, so a token counts as invalid", withoutToken(err.Error(), token))
			}
			return nil, err
		}
		rejected = v.checkKeys(t.Method, verificationKey)
		return verificationKey, rejected
	})
	switch {
	case rejected != nil:
		return Content{}, rejected
	case err != nil:
		return Content{}, rejection(err)
	}
	return c, nil
}

// checkText checks the JSON text of a token. It uses the decoder of package jwt, so that checkText
// and package jwt check the same bytes.
func (v *Verifier) checkText(token string) error {
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
func inspect(t *jwt.Token, names []string) (Content, error) {
	// RFC 7515 section 4.1.11: a token with an unknown extension is invalid. None is known here.
	if _, there := t.Header["crit"]; there {
		return Content{}, &Error{reason: "critical header parameter"}
	}
	claims := t.Claims.(jwt.MapClaims)
	iss, sub, err := User(claims)
	if err != nil {
		return Content{}, err
	}
	exp, ok := claimedDate(claims, "exp")
	if !ok || exp.Unix() == 0 {
		return Content{}, &Error{reason: "no usable expiry"}
	}
	if _, there := claims["nbf"]; there {
		if _, ok := claimedDate(claims, "nbf"); !ok {
			return Content{}, &Error{reason: "no usable not-before time"}
		}
	}
	return Content{iss, sub, claimedTexts(claims, names), exp}, nil
}

// checkKeys checks the result of the Keyfunc: a key, or all keys of a jwt.VerificationKeySet.
func (v *Verifier) checkKeys(m jwt.SigningMethod, key any) error {
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
			return &Error{reason: r.reason, cause: err}
		}
	}
	return &Error{reason: "invalid", cause: err}
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
