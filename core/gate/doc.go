// Package gate is what a rate limiting middleware does, whatever the framework:
// it finds out who is asking, asks the limiter, writes the header fields and
// makes the answer to a request that is not let through.
//
//	request ──▶ Skip? ──▶ key ──▶ Limiter ──▶ fields ──▶ handler
//	                       │         │           │
//	                       ▼         ▼           ▼
//	                    400, 401  pass or 503   429      problem documents
//
// Applications use the adapters nethttplimit, ginlimit and echolimit, and from
// this package the [Option] values, which mean the same in all of them, and
// [FromContext]. The rest is for adapters: [New], [Denied], [Gate.Admit],
// [Refusal] and [RegisterRequestKey].
//
// # What a client sees
//
// Every decided request carries RateLimit-Policy and RateLimit
// (draft-ietf-httpapi-ratelimit-headers-11, see [Headers]):
//
//	RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400
//	RateLimit: "burst";r=3;t=12, "daily";r=840;t=36000
//
// A denied one is answered with 429 (RFC 6585), Retry-After (RFC 9110 section
// 10.2.3) and a problem document (RFC 9457), see [Problem]. Waiting for
// Retry-After seconds is enough unless others use the same key meanwhile. A cost
// that can never be admitted has no Retry-After.
//
// The ResponseWriter is not wrapped, so streaming, hijacking and
// [net/http.ResponseController] work as they do without a gate.
//
// # Several gates on one request
//
// A global gate and one per route can stand behind each other. Each decides by
// itself, and the fields list the rules of all of them; of rules with the same
// name, the one with less left. What an outer gate took is not given back when
// an inner one denies: use [And] where that matters.
package gate
