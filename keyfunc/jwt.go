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

// JWTOption changes what [JWTSubject] asks of a token. The only options are
// [Audience], [Cache], [Issuer], [Leeway] and [TokenFrom]; of two of one kind
// the later counts.
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

// Issuer requires the iss claim to be exactly iss. The default takes any
// issuer whose key the Keyfunc returns. Issuer panics if iss is empty.
func Issuer(iss string) JWTOption {
	if iss == "" {
		panic("keyfunc: Issuer: the issuer is empty")
	}
	return parserOption(jwt.WithIssuer(iss))
}

// Audience requires the aud claim to name at least one of aud. By default the
// claim is not looked at, which is only right where every token of the issuer
// is meant for this service (RFC 8725 section 3.9). Audience panics without
// arguments and if one is empty.
func Audience(aud ...string) JWTOption {
	if len(aud) == 0 || slices.Contains(aud, "") {
		panic("keyfunc: Audience: an audience is empty or none is given")
	}
	return parserOption(jwt.WithAudience(slices.Clone(aud)...))
}

// Leeway lets exp lie up to d in the past and nbf up to d in the future, for
// clocks that differ. The default is zero; a minute is usual. Leeway panics if
// d is negative.
func Leeway(d time.Duration) JWTOption {
	if d < 0 {
		panic(fmt.Sprintf("keyfunc: Leeway: %v is negative", d))
	}
	return parserOption(jwt.WithLeeway(d))
}

// TokenFrom sets where the token is, for instance in a cookie. f returns the
// bare token, without a scheme, or "" if the request has none. The default is
// the Authorization header. TokenFrom panics if f is nil.
func TokenFrom(f func(*http.Request) string) JWTOption {
	if f == nil {
		panic("keyfunc: TokenFrom: the function is nil")
	}
	return jwtOption(func(c *jwtConfig) {
		c.token = func(r *http.Request) (string, error) { return f(r), nil }
	})
}

// Cache remembers up to n verified tokens, so that a client that sends the
// same token again costs a hash instead of a signature check. An entry ends
// with the exp of its token and after five minutes at the latest: for so long
// a token stays good after the Keyfunc has stopped to return its key. Only
// tokens that passed every check are kept, by the SHA-256 of the whole token;
// the oldest entry makes room for a new one.
//
// The default is no cache. Cache panics if n is less than one.
func Cache(n int) JWTOption {
	if n < 1 {
		panic(fmt.Sprintf("keyfunc: Cache: %d entries are less than one", n))
	}
	return jwtOption(func(c *jwtConfig) { c.cache = n })
}

// JWTSubject keys by the user that a JSON Web Token (RFC 7519) names: by its
// sub and, if it has one, its iss, so that two issuers' "alice" are two users.
// The token is taken from the one "Authorization: Bearer" header of the
// request (RFC 6750 section 2.1) and verified with the key that kf returns, by
// one of the named algorithms ("RS256", "ES256", "EdDSA", "HS256", ...).
//
// Every failure is [ErrNoToken], whatever the reason, an error of kf included;
// errors.Is finds the errors of package jwt and of kf in it as well. These are
// refused beyond what package jwt refuses:
//
//   - tokens above 4 KiB, before anything is decoded
//   - headers with crit, and repeated members in the header or the claims
//   - no exp, or one that is no date before the year 10000
//   - sub that is no string, blank, or above 512 bytes; iss likewise, except
//     that it may be absent or empty
//   - missing keys: nil and empty ones, as a lookup of an unknown kid in a map
//     returns them
//   - keys that no application can mean: an HMAC secret shorter than the output of
//     its hash (RFC 7518 section 3.2: 32 bytes for HS256, 48 for HS384, 64 for
//     HS512), a public key as HMAC secret (PEM, DER, base64 of DER, OpenSSH, JWK),
//     and an ECDSA key without a point on its curve
//
// Of several keys in a jwt.VerificationKeySet, each has to be usable. A key that no
// application can mean is logged by [log/slog.Default] at level Warn, at most once a
// minute; neither the line nor the error holds any part of the key. Nothing is
// checked before the first token, because the keys are known only to kf.
//
// kf gets the token with its claims as jwt.MapClaims, nothing of it verified
// yet. It runs during the request, must be safe for concurrent use, and its
// panics are passed on.
//
// A signature check costs from tens of microseconds (RS256) to milliseconds
// (ES512) of a CPU. So have a limit by address in front of it: in the same gate, with
// the address as the first key (gate.And), or in a middleware of its own. Neither
// [Join] nor [FirstOf] with an address limits the checks. See also [Cache].
//
// JWTSubject panics if kf is nil, and if algorithms is empty or has a name
// that is "none" or that package jwt does not know.
func JWTSubject(kf jwt.Keyfunc, algorithms []string, opts ...JWTOption) Func {
	if kf == nil {
		panic("keyfunc: JWTSubject: the Keyfunc is nil")
	}
	checkAlgorithms(algorithms)
	c := jwtConfig{token: bearerToken, parser: []jwt.ParserOption{
		jwt.WithValidMethods(slices.Clone(algorithms)),
		jwt.WithExpirationRequired(),
		// One token has one spelling, or one client could fill a cache with it.
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

func checkAlgorithms(algorithms []string) {
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
}

// bearerToken returns the token68 of the Bearer scheme, or "". Of two Authorization
// headers, the application might believe either.
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
