package keyfunc

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// maxToken bounds the bytes of a token: decoding a megabyte takes 70 ms, and
// net/http would let one through.
const maxToken = 4 << 10

// verifier makes keys of tokens. It is safe for concurrent use.
type verifier struct {
	keyfunc jwt.Keyfunc
	parser  *jwt.Parser
	cache   *tokenCache  // nil without the option
	warned  atomic.Int64 // when a line was logged last, in Unix seconds
}

func newVerifier(c jwtConfig) *verifier {
	opts := []jwt.ParserOption{
		jwt.WithValidMethods(c.algorithms),
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(c.leeway),
		// One token has one spelling, or one client could fill a cache with it.
		jwt.WithStrictDecoding(),
	}
	if c.issuer != "" {
		opts = append(opts, jwt.WithIssuer(c.issuer))
	}
	if len(c.audience) > 0 {
		opts = append(opts, jwt.WithAudience(c.audience...))
	}
	v := &verifier{keyfunc: c.keyfunc, parser: jwt.NewParser(opts...)}
	if c.cache > 0 {
		v.cache = newTokenCache(c.cache)
	}
	return v
}

func (v *verifier) key(token string) (string, error) {
	if len(token) > maxToken {
		return "", &tokenError{reason: "longer than 4 KiB"}
	}
	if v.cache == nil {
		key, _, err := v.verify(token)
		return key, err
	}
	id := digestOf(token)
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

// verify returns the key and the expiry of a token that passes every check.
// What is free to check comes before the signature.
func (v *verifier) verify(token string) (string, time.Time, error) {
	c, err := v.inspect(token)
	if err != nil {
		return "", time.Time{}, err
	}
	key, err := claimedKey(c.iss, c.sub)
	if err != nil {
		return "", time.Time{}, err
	}
	if _, err := v.parser.ParseWithClaims(token, jwt.MapClaims{}, v.lookup); err != nil {
		return "", time.Time{}, refusal(err)
	}
	return key, c.exp, nil
}

// inspect applies the rules about the text of a token that package jwt does
// not have. It decodes as the parser does, so both see the same bytes.
func (v *verifier) inspect(token string) (claims, error) {
	for i := range len(token) {
		// The decoder would skip line breaks.
		if !isBase64URL(token[i]) && token[i] != '.' {
			return claims{}, errMalformed
		}
	}
	head, rest, _ := strings.Cut(token, ".")
	body, _, ok := strings.Cut(rest, ".")
	if !ok {
		return claims{}, errMalformed
	}
	header, err := v.parser.DecodeSegment(head)
	if err != nil {
		return claims{}, errMalformed
	}
	members, err := parseObject(header)
	if err != nil {
		return claims{}, err
	}
	// RFC 7515 section 4.1.11: a token whose extensions one does not know is
	// invalid, and no extension is known here.
	if _, there := members["crit"]; there {
		return claims{}, &tokenError{reason: "critical header parameter"}
	}
	payload, err := v.parser.DecodeSegment(body)
	if err != nil {
		return claims{}, errMalformed
	}
	return parseClaims(payload)
}

func isBase64URL(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// lookup is the user's Keyfunc, minus the keys that verify what they should not.
func (v *verifier) lookup(t *jwt.Token) (any, error) {
	key, err := v.keyfunc(t)
	if err != nil {
		return nil, err
	}
	keys := []jwt.VerificationKey{key}
	if set, ok := key.(jwt.VerificationKeySet); ok {
		keys = set.Keys
	}
	for _, k := range keys {
		if bad := checkKey(t.Method, k); bad != nil {
			if bad != errBadKey {
				v.warn(bad)
			}
			return nil, bad
		}
	}
	return key, nil
}

// warn logs a fault of the application at most once a minute, because clients
// choose how often it is met. Otherwise [FirstOf] might hide it for good.
func (v *verifier) warn(err error) {
	now := time.Now().Unix()
	last := v.warned.Load()
	if now-last >= 60 && v.warned.CompareAndSwap(last, now) {
		slog.Warn("weir: tokens are refused for a fault of the Keyfunc", "error", err)
	}
}

// refusal names the reason of an error of package jwt without its text, in
// which a Keyfunc may have quoted the token.
func refusal(err error) error {
	var bad *tokenError
	if errors.As(err, &bad) && errors.Is(bad, errBadKey) {
		return bad
	}
	for _, r := range refusals {
		if errors.Is(err, r.is) {
			return &tokenError{reason: r.reason, cause: err}
		}
	}
	return &tokenError{reason: "invalid", cause: err}
}

var refusals = []struct {
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
