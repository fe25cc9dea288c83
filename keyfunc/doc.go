// Package keyfunc finds the identity that a request is charged to. A [Func] reads
// a request and returns the key whose events are counted together.
//
// The name of each function says which header or value it believes:
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
//	with a JSON Web Token                 JWTSubject(verify, []string{"RS256"})
//	behind a middleware that has already  ContextSubject("user")
//	verified a token
//	signed in or not                      FirstOf(user, ip)
//	and each pair needs its own bucket    Join(user, ip)
//
// A header is only as good as the peer that sent it. The only trusted proxies are
// those in a [ProxySet]: a request from any other peer is charged to the peer,
// whatever its headers say.
//
//	ip := keyfunc.XForwardedFor(keyfunc.Proxies("10.0.0.0/8"))
//	user := keyfunc.JWTSubject(verify, []string{"RS256"}, keyfunc.Issuer("https://id.example.com"))
//	key, err := keyfunc.FirstOf(user, ip)(ctx, request)
//
// # Keys
//
// A key of an address is its canonical text: "203.0.113.9" for IPv4 and the
// masked prefix, "2001:db8:1:2::/64", for IPv6. A key of a user starts with
// "user:" or "user@", one of a [Join] with "join:". So keys of different kinds
// are never equal, and every spelling of one address is one key. A Func of
// your own should start its keys with a word of its own for the same reason.
//
// Keys are personal data. Stores of this module may hash them; this package
// returns them in plain text and puts them into the text of no error.
//
// # Errors
//
// A request that has no key gets an error that is [ErrNoKey]; if what it lacks
// is a valid token, the error is [ErrNoToken] as well. A header that a client can
// spoil makes an error and never falls back to the address of the proxy. Nothing that a client
// sends makes a function of this package panic, and the memory and time that
// a request can cost are bounded. Constructors panic on arguments that could
// never work: they are meant to run before the first request.
package keyfunc
