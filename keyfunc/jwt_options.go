package keyfunc

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/internal/argument"
)

// JWTOption configures a [JWT]. The only options are [Audience], [Cache], [Issuer], [Leeway] and
// [TokenFrom]. If an option is given twice, the later one is used.
type JWTOption interface{ argument.Option[jwtConfig] }

type jwtOption = argument.OptionFunc[jwtConfig]

type jwtConfig struct {
	parser []jwt.ParserOption
	token  func(*http.Request) (string, error)
	leeway time.Duration
	cache  int
}

func parserOption(o jwt.ParserOption) JWTOption {
	return jwtOption(func(c *jwtConfig) { c.parser = append(c.parser, o) })
}

// Issuer makes a JWT require that the iss claim is exactly iss. The default accepts any issuer for
// which the Keyfunc returns a key. Issuer panics if iss is empty.
func Issuer(iss string) JWTOption {
	if iss == "" {
		panic("keyfunc: Issuer: the issuer is empty")
	}
	return parserOption(jwt.WithIssuer(iss))
}

// Audience makes a JWT require that the aud claim names at least one of aud. By default the claim
// is not checked, which is only right if every token of the issuer is meant for this service (RFC
// 8725 section 3.9). Audience panics without arguments and if an argument is empty.
func Audience(aud ...string) JWTOption {
	if len(aud) == 0 || slices.Contains(aud, "") {
		panic("keyfunc: Audience: an audience is empty or none is given")
	}
	return parserOption(jwt.WithAudience(slices.Clone(aud)...))
}

// Leeway makes a JWT accept an exp up to d in the past and an nbf up to d in the future, for clocks
// that differ. The default is zero; a minute is usual. Leeway panics if d is negative.
func Leeway(d time.Duration) JWTOption {
	if d < 0 {
		panic(fmt.Sprintf("keyfunc: Leeway: %v is negative", d))
	}
	return jwtOption(func(c *jwtConfig) { c.leeway = d })
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

// Cache makes a JWT remember up to n verified tokens, so that a token that is sent again takes a
// hash instead of a signature check. A token leaves the cache at its exp, but after five
// minutes at the latest. A token may therefore be accepted for up to five minutes after the Keyfunc
// no longer returns its key. Only tokens that passed every check are cached, under the SHA-256 of
// the whole token. If the cache is full, a new token replaces the oldest.
//
// The default is no cache. Cache panics if n is less than one.
func Cache(n int) JWTOption {
	if n < 1 {
		panic(fmt.Sprintf("keyfunc: Cache: %d entries are less than one", n))
	}
	return jwtOption(func(c *jwtConfig) { c.cache = n })
}
