// Package keyfunc derives keys from requests. A [Func] reads a request and returns the key that the
// request is charged to; requests with the same key are counted together.
//
// The functions differ in the header or value that they believe:
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
//	with several claims of one token      NewJWT(verify, []string{"RS256"})
//	behind a middleware that has already  ContextSubject("user")
//	verified a token
//	with or without a valid token         FirstOf(user, ip)
//	with a limit for each user at each    Join(user, ip)
//	address
//
// A peer can send any header. Only the headers of trusted proxies, which are the peers in a
// [ProxySet], are believed. A request from any other peer is charged to the address of the peer.
//
//	ip := keyfunc.XForwardedFor(keyfunc.Proxies("10.0.0.0/8"))
//	user := keyfunc.JWTSubject(verify, []string{"RS256"}, keyfunc.Issuer("https://id.example.com"))
//	key, err := keyfunc.FirstOf(user, ip)(ctx, request)
//
// # Keys
//
// The key of an address is its canonical text: "203.0.113.9" for IPv4 and the masked prefix,
// "2001:db8:1:2::/64", for IPv6. All spellings of an address have the same key. The key of a user
// starts with "user:" or "user@", and the key of a [Join] with "join:", so keys of different kinds
// are never equal. Only the text of a claim ([JWT.Claim]) has no such word. If you write a Func,
// start its keys with another word for the same reason.
//
// Keys are personal data. This package returns them in plain text, and no text of an error contains
// them. Stores of this module may hash keys.
//
// # Errors
//
// The error of a request without a key is [ErrNoKey]; if a valid token is missing, the error is
// [ErrNoToken] as well. If a client may have made a header malformed, the function returns an
// error, and the request is not charged to the address of the proxy. Nothing that a client sends
// makes a function of this package panic, and the memory and time for a request are bounded.
// Constructors panic on invalid arguments: call them before the first request.
package keyfunc
