package keyfunc

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"weak"

	"github.com/golang-jwt/jwt/v5"

	"github.com/weir-go/weir/internal/argument"
	"github.com/weir-go/weir/keyfunc/internal/token"
)

const (
	// maxToken is the maximum length of a token, in bytes. Decoding a megabyte takes 70 ms.
	maxToken = 4 << 10

	// maxCacheAge is the longest time for which a token is accepted after its key was withdrawn.
	maxCacheAge = 5 * time.Minute

	// maxRequests is the number of requests whose result a JWT remembers. Between two Funcs of a
	// request, while a gate calls the Store or another key function, the tokens of other requests
	// are verified.
	maxRequests = 1024

	// maxRequestAge is the longest time for which a result is used for the same request. A request
	// may last for hours, and its token must then be verified again.
	maxRequestAge = time.Second
)

// A JWT verifies the JSON Web Tokens of requests for several Funcs, which together verify the token
// of a request once. See [NewJWT]. A JWT is safe for concurrent use.
type JWT struct {
	verifier *token.Verifier
	token    func(*http.Request) (string, error)
	leeway   time.Duration
	cache    *cache[digest, content]                     // nil without the option Cache
	requests *cache[weak.Pointer[http.Request], checked] // nil for the JWT of JWTSubject or JWTClaim

	mu     sync.Mutex               // for writes of claims
	claims atomic.Pointer[[]string] // the names of the claims that Funcs return
}

// content is the part of a valid token that Funcs use.
type content struct {
	user   string   // the key of the user
	claims []string // the claims that Funcs return; "" if absent or unusable
	exp    time.Time
}

// A digest is the hash of all bytes of a token, including the signature.
type digest = [sha256.Size]byte

// checked is the result of a verification: the content of the token, or an error.
type checked struct {
	token   digest
	content content
	err     error
}

// NewJWT returns a JWT, whose Funcs use the JSON Web Token (RFC 7519) of a request. The token is
// taken from the one "Authorization: Bearer" header of the request (RFC 6750 section 2.1) and
// verified with the key that kf returns. Only the named algorithms are accepted ("RS256", "ES256",
// "EdDSA", "HS256", ...).
//
//	tokens := keyfunc.NewJWT(kf, []string{"RS256"})
//	user, plan := tokens.Subject(), tokens.Claim("plan")
//
// A token is verified once: if Funcs of one JWT are called for one *http.Request within a second, the first
// of them verifies the token, and the others use the result, which may be an error. They verify the
// token again if its text has changed or its exp has passed, or if the tokens of more than 1000
// other requests were verified in between. With a single Func that is called once for a request,
// [JWTSubject] and [JWTClaim] are faster.
//
// The error of a token that is absent or invalid is an [ErrNoToken], even if kf fails. In it,
// errors.Is finds the errors of package jwt and of kf as well. An error of kf, such as that of a key server
// that cannot be reached, is logged through [log/slog.Default] at level Warn, at most once a minute with the
// number of errors in between, because otherwise all tokens would be invalid, and [FirstOf] would go on,
// without a trace. It is not logged if it is an [ErrNoKey]: kf can return an ErrNoToken for a kid that does not
// exist, which clients can cause. The line contains the text of the error, without the token as it was sent: kf
// must not put claims into it, or the token in another form.
//
// A JWT rejects the tokens that package jwt rejects, and also:
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
// Every key of a jwt.VerificationKeySet must be usable. A key that is certainly a mistake is logged in the
// same way. Neither the line nor the error contains any part of the key. Keys are checked whenever a token is
// verified.
//
// kf is called during the request with a token that is not verified yet, whose claims are
// jwt.MapClaims. It must be safe for concurrent use. A panic of kf is not recovered.
//
// Checking a signature can take milliseconds of CPU time. Put a limit by address before it: in the
// same gate, as the first key (gate.And), or in another middleware. See also [Cache].
//
// NewJWT panics if kf is nil, and if algorithms is empty or contains "none" or a name that package
// jwt does not know.
func NewJWT(kf jwt.Keyfunc, algorithms []string, opts ...JWTOption) *JWT {
	j := newJWT("NewJWT", kf, algorithms, opts)
	j.requests = newCache[weak.Pointer[http.Request], checked](maxRequests, maxRequestAge)
	return j
}

// JWTSubject returns [JWT.Subject] of a JWT of its own: a Func that derives the key from the user
// of a token. It has the arguments, errors and panics of [NewJWT].
func JWTSubject(kf jwt.Keyfunc, algorithms []string, opts ...JWTOption) Func {
	return newJWT("JWTSubject", kf, algorithms, opts).Subject()
}

// JWTClaim returns [JWT.Claim] of a JWT of its own: a Func that returns the text of a claim of a
// token. It has the arguments, errors and panics of [NewJWT], and panics if name is empty.
//
// Use it if a claim is all that is needed of a token. If the same gate also needs the user, use
// NewJWT, which verifies the token once.
func JWTClaim(name string, kf jwt.Keyfunc, algorithms []string, opts ...JWTOption) Func {
	return newJWT("JWTClaim", kf, algorithms, opts).claim("JWTClaim", name)
}

func newJWT(caller string, kf jwt.Keyfunc, algorithms []string, opts []JWTOption) *JWT {
	if kf == nil {
		panic("keyfunc: " + caller + ": the Keyfunc is nil")
	}
	if len(algorithms) == 0 {
		panic("keyfunc: " + caller + `: name the algorithms of the tokens, for instance []string{"RS256"}`)
	}
	for _, name := range algorithms {
		if strings.EqualFold(name, "none") {
			panic("keyfunc: " + caller + `: "none" is no signature`)
		}
		if jwt.GetSigningMethod(name) == nil {
			panic(fmt.Sprintf("keyfunc: %s: unknown algorithm %q", caller, name))
		}
	}
	c := jwtConfig{token: bearerToken, parser: []jwt.ParserOption{
		jwt.WithValidMethods(slices.Clone(algorithms)),
		jwt.WithExpirationRequired(),
		// Each token must have one encoding; otherwise a client could fill a cache with one token.
		jwt.WithStrictDecoding(),
	}}
	argument.Apply("keyfunc: "+caller, &c, opts)
	parser := jwt.NewParser(append(c.parser, jwt.WithLeeway(c.leeway))...)
	j := &JWT{verifier: token.New(kf, ErrNoKey, parser), token: c.token, leeway: c.leeway}
	j.claims.Store(new([]string))
	if c.cache > 0 {
		j.cache = newCache[digest, content](c.cache, maxCacheAge)
	}
	return j
}

// Subject returns a Func that derives the key from the user of a token: its sub and, if present,
// its iss, so that "alice" of two issuers is two users.
func (j *JWT) Subject() Func {
	return func(_ context.Context, r *http.Request) (string, error) {
		c, err := j.read(r)
		return c.user, err
	}
}

// Claim returns a Func that returns the text of a claim as it is, for example the name of a plan.
// The error for a valid token is an [ErrNoKey] that is no ErrNoToken if the claim is absent, empty, not
// a string, longer than 512 bytes, or contains U+FFFD (invalid text). As a plan, this error means the
// limits without a plan (gate.Plan). Claim panics if name is empty.
//
// Unlike the other keys of this package, the text has no prefix, so it may equal the key of an
// address or user. For a limiter, add a name:
//
//	tenant := keyfunc.Join(keyfunc.Constant("tenant"), tokens.Claim("tenant"))
func (j *JWT) Claim(name string) Func { return j.claim("Claim", name) }

func (j *JWT) claim(caller, name string) Func {
	if name == "" {
		panic("keyfunc: " + caller + ": the name is empty")
	}
	i := j.want(name)
	missing := &NoKeyError{Detail: fmt.Sprintf("the token has no usable claim %q", name)}
	return func(_ context.Context, r *http.Request) (string, error) {
		c, err := j.read(r)
		switch {
		case err != nil:
			return "", err
		case c.claims[i] == "":
			return "", missing
		}
		return c.claims[i], nil
	}
}

// want adds name to the claims of j, and returns its index there.
func (j *JWT) want(name string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	names := *j.claims.Load()
	if i := slices.Index(names, name); i >= 0 {
		return i
	}
	names = append(slices.Clone(names), name)
	j.claims.Store(&names)
	return len(names) - 1
}

// read returns the content of the token of r.
func (j *JWT) read(r *http.Request) (content, error) {
	token, err := j.token(r)
	switch {
	case err != nil:
		return content{}, err
	case token == "":
		return content{}, errNoToken
	case len(token) > maxToken:
		return content{}, errLongToken
	}
	claims := *j.claims.Load()
	if j.cache == nil && j.requests == nil {
		return j.verify(token, claims)
	}

	// A content from before the last call of Claim lacks a claim, and is not used.
	hash, now := sha256.Sum256([]byte(token)), time.Now()
	if c, ok := j.cache.get(hash, now); ok && len(c.claims) == len(claims) {
		return c, nil
	}
	var request weak.Pointer[http.Request]
	if j.requests != nil {
		request = weak.Make(r)
		last, ok := j.requests.get(request, now)
		if ok && last.token == hash && (last.err != nil || len(last.content.claims) == len(claims)) {
			return last.content, last.err
		}
	}
	c, err := j.verify(token, claims)
	if err == nil {
		j.cache.put(hash, c, now, c.exp)
	}
	now = time.Now() // kf may have taken a while
	until := now.Add(maxRequestAge)
	if err == nil {
		until = c.exp.Add(j.leeway)
	}
	j.requests.put(request, checked{hash, c, err}, now, until)
	return c, err
}

// verify returns the content of a token that passes every check, with the claims of these names.
func (j *JWT) verify(text string, names []string) (content, error) {
	c, err := j.verifier.Verify(text, names)
	user, err := userKey(c.Issuer, c.Subject, err)
	return content{user, c.Claims, c.Expiry}, err
}

// userKey returns the key of the user with these iss and sub, or if err is not nil, which is a [token.Error],
// the ErrNoToken for it.
func userKey(iss, sub string, err error) (string, error) {
	if err != nil {
		return "", &tokenError{reason: err.Error(), cause: err}
	}
	return SubjectKey(iss, sub), nil
}

var (
	errNoToken   = &tokenError{reason: "the request has none"}
	errLongToken = &tokenError{reason: "longer than 4 KiB"}

	// errSeveral is the error of a request with several Authorization header fields, of which a handler reads
	// the first.
	errSeveral = &tokenError{reason: "several Authorization headers", unusable: true}

	// errNoToken68 is the error of white space that the syntax of RFC 9110 section 11.4 does not have, where a
	// handler may see the end of the scheme or of the token.
	errNoToken68 = &tokenError{reason: "white space in the Authorization header", unusable: true}
)

// bearerToken returns the token68 of the Bearer scheme, or "". Several Authorization headers are an
// error, because the application might use another of them.
func bearerToken(r *http.Request) (string, error) {
	lines := r.Header["Authorization"]
	if len(lines) == 0 {
		return "", nil
	}
	if len(lines) > 1 {
		return "", errSeveral
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	token = strings.Trim(token, " ")
	if strings.EqualFold(scheme, "Bearer") && !strings.ContainsFunc(token, unicode.IsSpace) {
		return token, nil
	}
	for word := range strings.FieldsSeq(lines[0]) {
		if strings.EqualFold(word, "Bearer") {
			return "", errNoToken68
		}
		break
	}
	return "", nil
}
