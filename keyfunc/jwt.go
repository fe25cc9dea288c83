package keyfunc

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// JWTOption configures [JWTSubject]. The only options are [Audience], [Cache], [Issuer], [Leeway]
// and [TokenFrom]. If an option is given twice, the later one is used.
type JWTOption interface{ applyJWT(*jwtConfig) }

type jwtOption func(*jwtConfig)

func (o jwtOption) applyJWT(c *jwtConfig) { o(c) }

type jwtConfig struct {
	parser []jwt.ParserOption
	token  func(*http.Request) (string, error)
	cache  int
}

func parserOption(o jwt.ParserOption) JWTOption {
	return jwtOption(func(c *jwtConfig) { c.parser = append(c.parser, o) })
}

// Issuer makes JWTSubject require that the iss claim is exactly iss. The default accepts
// any issuer for which the Keyfunc returns a key. Issuer panics if iss is empty.
func Issuer(iss string) JWTOption {
	if iss == "" {
		panic("keyfunc: Issuer: the issuer is empty")
	}
	return parserOption(jwt.WithIssuer(iss))
}

// Audience makes JWTSubject require that the aud claim names at least one of aud. By default the
// claim is not checked, which is only right if every token of the issuer is meant for this service
// (RFC 8725 section 3.9). Audience panics without arguments and if an argument is empty.
func Audience(aud ...string) JWTOption {
	if len(aud) == 0 || slices.Contains(aud, "") {
		panic("keyfunc: Audience: an audience is empty or none is given")
	}
	return parserOption(jwt.WithAudience(slices.Clone(aud)...))
}

// Leeway makes JWTSubject accept an exp up to d in the past and an nbf up to d in the future, for
// clocks that differ. The default is zero; a minute is usual. Leeway panics if d is negative.
func Leeway(d time.Duration) JWTOption {
	if d < 0 {
		panic(fmt.Sprintf("keyfunc: Leeway: %v is negative", d))
	}
	return parserOption(jwt.WithLeeway(d))
}

// TokenFrom sets the function that finds the token, for instance in a cookie. f must return the
// bare token, without a scheme, or "" if the request contains no token. The default is the
// Authorization header. TokenFrom panics if f is nil.
func TokenFrom(f func(*http.Request) string) JWTOption {
	if f == nil {
		panic("keyfunc: TokenFrom: the function is nil")
	}
	return jwtOption(func(c *jwtConfig) {
		c.token = func(r *http.Request) (string, error) { return f(r), nil }
	})
}

// Cache makes JWTSubject remember up to n verified tokens, so that a token that is sent again takes
// a hash instead of a signature check. An entry expires at the exp of its token, but after five
// minutes at the latest. A token may therefore be accepted for up to five minutes after the Keyfunc
// no longer returns its key. Only tokens that passed every check are cached, under the SHA-256 of
// the whole token. If the cache is full, a new entry replaces the oldest.
//
// The default is no cache. Cache panics if n is less than one.
func Cache(n int) JWTOption {
	if n < 1 {
		panic(fmt.Sprintf("keyfunc: Cache: %d entries are less than one", n))
	}
	return jwtOption(func(c *jwtConfig) { c.cache = n })
}

// JWTSubject returns a Func that derives the key from the user of a JSON Web Token (RFC 7519): its
// sub and, if present, its iss, so that "alice" of two issuers is two users. The token is taken
// from the one "Authorization: Bearer" header of the request (RFC 6750 section 2.1) and verified
// with the key that kf returns. Only the named algorithms are accepted ("RS256", "ES256", "EdDSA",
// "HS256", ...).
//
// Every error is an [ErrNoToken], even if kf fails. In it, errors.Is finds the errors of package
// jwt and of kf as well. The Func rejects the tokens that package jwt rejects, and also:
//
//   - tokens above 4 KiB, before anything is decoded
//   - headers with crit, and repeated members in the header or the claims
//   - tokens whose exp is absent, is not a date, or is after the year 9999
//   - tokens whose sub is absent, is not a string, is blank, or is longer than 512 bytes; the same
//     for iss, except that iss may be absent or empty
//   - missing keys: nil or empty, as returned by the lookup of an unknown kid in a map
//   - keys that are certainly a mistake: an HMAC secret shorter than the output of its hash (RFC
//     7518 section 3.2: 32 bytes for HS256, 48 for HS384, 64 for HS512), a public key as HMAC
//     secret (PEM, DER, base64 of DER, OpenSSH, JWK), and an ECDSA key without a point on its curve
//
// Every key of a jwt.VerificationKeySet must be usable. A key that is certainly a mistake is logged
// through [log/slog.Default] at level Warn, at most once a minute. Neither the line nor the error
// contains any part of the key. Keys are checked whenever a token is verified.
//
// kf is called during the request with a token that is not verified yet, whose claims are
// jwt.MapClaims. It must be safe for concurrent use. A panic of kf is not recovered.
//
// Checking a signature can take milliseconds of CPU time. Put a limit by address before it: in the
// same gate, as the first key (gate.And), or in another middleware. See also [Cache].
//
// JWTSubject panics if kf is nil, and if algorithms is empty or contains "none" or a name that
// package jwt does not know.
func JWTSubject(kf jwt.Keyfunc, algorithms []string, opts ...JWTOption) Func {
	if kf == nil {
		panic("keyfunc: JWTSubject: the Keyfunc is nil")
	}
	if len(algorithms) == 0 {
		panic(`keyfunc: JWTSubject: name the algorithms of the tokens, for instance []string{"RS256"}`)
	}
	for _, name := range algorithms {
		if strings.EqualFold(name, "none") {
			panic(`keyfunc: JWTSubject: "none" is no signature`)
		}
		if jwt.GetSigningMethod(name) == nil {
			panic(fmt.Sprintf("keyfunc: JWTSubject: unknown algorithm %q", name))
		}
	}
	c := jwtConfig{token: bearerToken, parser: []jwt.ParserOption{
		jwt.WithValidMethods(slices.Clone(algorithms)),
		jwt.WithExpirationRequired(),
		// Each token must have one encoding; otherwise a client could fill a cache with one token.
		jwt.WithStrictDecoding(),
	}}
	for i, o := range opts {
		if o == nil {
			panic(fmt.Sprintf("keyfunc: JWTSubject: option %d is nil", i))
		}
		o.applyJWT(&c)
	}
	v := &verifier{keyfunc: kf, parser: jwt.NewParser(c.parser...)}
	if c.cache > 0 {
		v.cache = &tokenCache{max: c.cache, entries: map[digest]tokenEntry{}}
	}
	return func(_ context.Context, r *http.Request) (string, error) {
		token, err := c.token(r)
		if err != nil {
			return "", err
		}
		return v.key(token)
	}
}

// bearerToken returns the token68 of the Bearer scheme, or "". Several Authorization headers are an
// error, because the application might use another of them.
func bearerToken(r *http.Request) (string, error) {
	if len(r.Header.Values("Authorization")) > 1 {
		return "", &tokenError{reason: "several Authorization headers"}
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", nil
	}
	return strings.Trim(token, " "), nil
}
