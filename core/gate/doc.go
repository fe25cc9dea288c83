// Package gate has the options of the rate limiting middlewares nethttplimit, ginlimit and
// echolimit, and the functions that handlers call: [FromContext] returns the decision about a
// request, [Settle] corrects its cost. An option means the same in every middleware.
//
//	limit := nethttplimit.New(api, keyfunc.RemoteIP(), gate.Skip(isHealthCheck), gate.FailClosed())
//
// A gate is one such middleware. It handles every request in this order:
//
//	request ──▶ Skip? ──▶ key ──▶ Limiter ──▶ fields ──▶ handler ──▶ RefundIf?
//	                       │         │           │          │
//	                       ▼         ▼           ▼          ▼
//	                    400, 401  pass or 503   429       Settle
//	                         problem documents
//
// Package adapter is for authors of middlewares for other frameworks.
//
// # Answers
//
// The answer to a request that was decided has the header fields RateLimit-Policy and RateLimit,
// "fields" for short (draft-ietf-httpapi-ratelimit-headers-11, see [Headers]):
//
//	RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400
//	RateLimit: "burst";r=3;t=12, "daily";r=840;t=36000
//
// A denied request is answered with 429 (RFC 6585), Retry-After (RFC 9110 section 10.2.3) and a
// problem document (RFC 9457, see [Problem]). A client that waits for Retry-After seconds is
// admitted unless other requests use the same key in the meantime. Retry-After is absent if the
// cost can never be admitted. The answers of a gate (400, 401, 429, 500 and 503) forbid caches to
// store them (Cache-Control: no-store) and clients to guess their type
// (X-Content-Type-Options: nosniff).
//
// The decision tells the handler whether the request was admitted beyond a soft limit
// ([core.Decision.Soft]). No field tells the client.
//
// A shadow rule ([core.Rule.Shadow]) appears neither in the fields nor in problem documents. Its
// State is in the decision, for the handler.
//
// A gate does not wrap the ResponseWriter, so streaming, hijacking and
// [net/http.ResponseController] work as they do without a gate. Only [RefundIf] wraps it, in a
// ResponseWriter with the same optional methods. One function of net/http does not work through the
// wrapper: [net/http.MaxBytesReader] does not close the connection of a client that sends too much.
//
// # Requests without a key
//
// A request without a key is rejected with 401 or 400. The keys that were found before the missing
// one are charged, so that bad tokens and guesses are limited, and the fields show their states. If
// the limits of these keys deny the request, the answer is 429. The option [And] describes the
// order of the keys, and the bound of the number of bad tokens that are verified.
//
// # The cost of a request
//
// A request is charged before its handler runs: 1, or the result of [Cost]. Two functions correct
// the cost afterwards. RefundIf refunds it, depending on the status of the answer. [Settle] sets it
// to the real cost, which only the handler knows, such as a number of tokens or bytes.
//
// # Clients that hang up
//
// The end of a request's context tells a gate that the client has hung up. For HTTP/2, net/http
// ends the context at once. For HTTP/1.1, net/http reads from the connection only while a handler
// reads the body, and from the end of the body until the client sends its next request. A client of
// HTTP/1.1 that hangs up after a body that the handler does not read, or after another request,
// goes unnoticed until the handler has returned. The gate treats such a request as if the client
// had stayed: RefundIf gets the status of the handler, and a leaky bucket holds the request until
// its departure. A client gains nothing by hanging up in this way.
//
// # Several gates on one request
//
// A request can pass a global gate and one for its route. Each gate decides by itself, and the
// fields list the rules of all of them. If several rules have the same name, the fields list the
// rule with the fewest remaining units. If an inner gate denies the request, the outer gate has
// charged it already: use the option [And] to decide both in one decision.
package gate
