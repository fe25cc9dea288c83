// Package keyfunc derives keys from requests. A [Func] reads a request and returns the key that the
// request is charged to; requests with the same key are counted together.
//
// The functions for the address of a client differ in the header field that they believe:
//
//	The application is reached            Use
//	------------------------------------  -------------------------------------------
//	directly, or over TCP load balancing  RemoteIP()
//	with the PROXY protocol
//	through proxies that append to        XForwardedFor(Proxies("10.0.0.0/8"))
//	X-Forwarded-For (nginx, HAProxy,
//	Envoy, Traefik, most cloud balancers)
//	through proxies that write RFC 7239   Forwarded(Proxies("10.0.0.0/8"))
//	through a CDN that puts one address   HeaderIP("CF-Connecting-IP", Proxies(ranges...))
//	in a header of its own
//	through a proxy on a Unix socket      XForwardedFor(Proxies("unix"))
//	only through n proxies of a platform  XForwardedFor(LastHops(n))
//	that publishes no addresses
//
// A peer can send any header. Only the headers of trusted proxies, which are the peers in a
// [ProxySet], are believed. A request from any other peer is charged to the address of the peer.
//
// All clients behind a forgotten proxy have one key. A Func therefore logs a warning with the line to
// write, once, when a peer that is not trusted looks like a proxy: its address is private, loopback,
// link-local, shared (100.64.0.0/10) or a Unix socket, and it sends X-Forwarded-For, Forwarded,
// X-Real-IP or the header of HeaderIP. With LastHops there is no such peer, and no warning.
//
//	ip := keyfunc.XForwardedFor(keyfunc.Proxies("10.0.0.0/8"))
//	user := keyfunc.JWTSubject(verify, []string{"RS256"}, keyfunc.Issuer("https://id.example.com"))
//	key, err := keyfunc.FirstOf(user, ip)(ctx, request)
//
// # Functions
//
// A client that can choose its key at will has no limit. It can also exhaust the limit of another
// key. The functions whose value is chosen by the client are for requests that a middleware has
// authenticated, and for limits of the value itself beside a limit by address: a login with a limit
// by FormValue("user") bounds the guesses of one user's password from all addresses.
//
//	Function        Reads                                Chosen by             Error         Key
//	--------------  -----------------------------------  --------------------  ------------  ----------------------
//	RemoteIP        r.RemoteAddr                         network               ErrNoKey      203.0.113.9
//	XForwardedFor   X-Forwarded-For of trusted proxies   your proxies          ErrNoKey      2001:db8:1:2::/64
//	Forwarded       Forwarded of trusted proxies         your proxies          NoKeyError    as above
//	HeaderIP        a field of trusted proxies           your proxies          NoKeyError    as above
//	JWTSubject,     sub and iss of the bearer token      issuer of the token   ErrNoToken    user:alice,
//	JWT.Subject                                                                              user@5:iss-1:alice
//	JWTClaim,       another claim of the bearer token    issuer of the token   ErrNoToken,   the text of the claim
//	JWT.Claim                                                                  NoKeyError
//	ContextSubject  a value of an earlier middleware     your middleware       ErrNoToken    as JWTSubject
//	Header          a header field                       client                NoKeyError    header:x-api-key:...
//	HeaderFrom      a header field of trusted gateways   your gateways         NoKeyError    as Header
//	Cookie          a cookie                             client                NoKeyError    cookie:session:...
//	BasicAuthUser   the name in Authorization: Basic     client                ErrNoToken    basic:alice
//	PathValue       a wildcard of the route              client                NoKeyError    path:tenant:acme
//	FormValue       a field of the form in the body      client                NoKeyError    body:user:alice
//	JSONField       a field of the JSON in the body      client                NoKeyError    body:user:alice
//	Constant        nothing                              you                   none          constant:all
//	FirstOf         the first function with a key        as its functions      the first     as its functions
//	Join            all its functions                    as its functions      the first     join:...
//	Fold            its function                         as its function       that, or      in lower case
//	                                                                           NoKeyError
//
// For any other value, write a Func. Its keys are best made by [UserKey] or [CanonicalIP], or start
// with a word of their own. Operators use these and [SubjectKey] to look up or reset a key.
//
// # Keys
//
// The key of an address is its canonical text: "203.0.113.9" for IPv4 and the masked prefix,
// "2001:db8:1:2::/64", for IPv6. All spellings of an address have the same key. All other keys start
// with a word for their kind and a colon, "user@" or "join:", so keys of different kinds are never
// equal. After the words header, cookie, path and body follows the name of the value, with "%25"
// and "%3A" in place of a percent sign and a colon, and another colon. Only the text of a claim
// ([JWT.Claim]) has no such word. If you write a Func, start its keys with another word for the same
// reason.
//
// Keys are personal data, and those of Header and Cookie may be secrets. This package returns them
// in plain text, and no text of an error contains them. Stores of this module may hash keys.
//
// # Errors
//
// The error of a request without a key is [ErrNoKey]. If a valid token is missing, it is also
// [ErrNoToken]. If the client can correct the request, it is a [NoKeyError] with a text for it. A client gains nothing from a malformed
// header: the function returns an error, or uses the addresses that trusted proxies have appended. Nothing that a client sends makes a function of this
// package panic, and the memory and time for a request are bounded. Constructors panic on invalid
// arguments: call them before the first request.
package keyfunc
