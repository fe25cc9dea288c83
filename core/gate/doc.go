// Package gate has the options of the rate limiting middlewares nethttplimit, ginlimit and
// echolimit, which mean the same in all of them, and the functions that handlers call:
// [FromContext] reads the decision about a request, [Settle] corrects its cost.
//
//	limit := nethttplimit.New(api, keyfunc.RemoteIP(), gate.Skip(isHealthCheck), gate.FailClosed())
//
// A gate is one such middleware. It treats every request in this order:
//
//	request ──▶ Skip? ──▶ key ──▶ Limiter ──▶ fields ──▶ handler ──▶ RefundIf?
//	                       │         │           │          │
//	                       ▼         ▼           ▼          ▼
//	                    400, 401  pass or 503   429       Settle
//	                         problem documents
//
// A middleware for another framework is written with package adapter.
//
// # What a client sees
//
// Every decided request carries the header fields (fields, for short) RateLimit-Policy and RateLimit
// (draft-ietf-httpapi-ratelimit-headers-11, see [Headers]):
//
//	RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400
//	RateLimit: "burst";r=3;t=12, "daily";r=840;t=36000
//
// A denied one is answered with 429 (RFC 6585), Retry-After (RFC 9110 section
// 10.2.3) and a problem document (RFC 9457), see [Problem]. Waiting for
// Retry-After seconds is enough unless others use the same key meanwhile. A cost
// that can never be admitted has no Retry-After. Like the other answers of a gate
// (400, 401, 500 and 503), it forbids caches to keep it (Cache-Control: no-store) and
// clients to guess its type (X-Content-Type-Options: nosniff).
//
// A handler finds in its decision whether the request was let through beyond a soft limit
// ([core.Decision.Soft]). No field tells that to the client.
//
// Of a rule in the shadow ([core.Rule.Shadow]) clients see nothing, neither in fields
// nor in documents. The handler does: its State is in the decision.
//
// The ResponseWriter is not wrapped, so streaming, hijacking and
// [net/http.ResponseController] work as they do without a gate. [RefundIf] has to
// wrap it, and keeps the optional methods that it has, for those are how they work.
// Only what net/http keeps to itself is lost there: [net/http.MaxBytesReader] does not
// close the connection of a client that sends too much.
//
// # Requests without a key
//
// A request without a key is rejected with 401 or 400. The keys that were found before the
// missing one are charged, so that bad tokens and guesses are limited, and the fields show
// their states. Beyond their limits the answer is 429. A key that has nothing left is
// charged before the next key is found, so that no token is verified for a request that is
// denied anyway. The order of the keys, and the bounds, are described at the option [And].
//
// # What a request costs
//
// It is charged before its handler runs: 1, or what [Cost] says. Afterwards there are
// two ways to correct that. RefundIf looks at the status of the answer and gives
// everything back, and [Settle] makes the request cost what it turned out to: what a
// handler knows about itself, such as tokens or bytes.
//
// # Clients that hang up
//
// A client that hangs up is known by the context of its request. net/http ends that
// context at once for HTTP/2. For HTTP/1.1 it looks at the connection only while a
// handler reads the body, and from the end of the body on until the client sends its
// next request. So a client of HTTP/1.1 that hangs up behind a body that nobody reads,
// or behind another request, goes unnoticed until the handler has returned: RefundIf
// looks at the status of the handler, and a request that a leaky bucket holds is held
// until its turn, as if the client had stayed. Hanging up so gains nothing that staying
// would not.
//
// # Several gates on one request
//
// A global gate and one per route can stand behind each other. Each decides by
// itself, and the fields list the rules of all of them; of rules with the same
// name, the one with less left. What an outer gate took is not given back when
// an inner one denies: use the option [And] where that matters.
package gate
