// Package gate provides the options of the rate limiting middlewares nethttplimit, ginlimit,
// echolimit and grpclimit, and the functions that handlers call: [Refund] and [Settle] correct the cost of a
// request, [Reset] forgets the events of its key, [FromContext] returns the decision about it. An
// option means the same in every middleware.
//
//	limit := nethttplimit.New(api, keyfunc.RemoteIP(), gate.Skip(isHealthCheck), gate.FailClosed())
//
// A gate is such a middleware. It handles every request in these steps:
//
//	request ──▶ Skip? ──▶ key ──▶ Limiter ──▶ header ──▶ handler ──▶ RefundIf?
//	                       │         │           │          │
//	                       ▼         ▼           ▼          ▼
//	                    400, 401  pass or 503   429       Refund, Settle, Reset
//	                         problem documents
//
// Package adapter is for authors of middlewares for other frameworks.
//
// # Responses
//
// If a request was decided, its response contains the header fields RateLimit-Policy and RateLimit
// (draft-ietf-httpapi-ratelimit-headers-11, see [Headers]):
//
//	RateLimit-Policy: "burst";q=100;w=60, "daily";q=1000;w=86400
//	RateLimit: "burst";r=3;t=12, "daily";r=840;t=36000
//
// The response to a denied request has the status 429 (RFC 6585) or that of [DeniedStatus], Retry-After
// (RFC 9110 section 10.2.3) and a problem document (RFC 9457, see [Problem]). A client that waits for
// Retry-After seconds is admitted unless other requests use the same key in the meantime. Retry-After is
// absent if the cost can never be admitted, and if all places of a [core.InFlight] are taken. [Jitter] makes it
// longer by random seconds, so that denied clients do not return together. The responses of the gate itself (by
// default 400, 401, 429, 500 and 503) forbid caches to store them (Cache-Control: no-store) and clients to guess
// their type (X-Content-Type-Options: nosniff).
//
// The decision tells the handler whether the request was admitted beyond a soft limit
// ([core.Decision.Soft]). No header field tells the client.
//
// A shadow rule ([core.Rule.Shadow]) appears neither in the header fields nor in problem documents.
// Its State is in the decision, for the handler.
//
// A gate does not wrap the ResponseWriter, so streaming, hijacking and
// [net/http.ResponseController] work as they do without a gate. Only [RefundIf] wraps it, in a
// ResponseWriter with the same optional methods. Through this wrapper, [net/http.MaxBytesReader]
// does not close the connection of a client that sends too much.
//
// [OnDecision] gets an [Event] for each request: the outcome, the decision, the route and the error.
// Package observe counts the decisions of all limiters on a store, by rule and plan.
//
// # The request
//
// A gate passes a copy of the request on, whose context has the decision. When the handler has returned or
// panicked, the MultipartForm, Form, PostForm and Pattern of the copy are set in the request of the code
// around the gate: net/http then removes the files of uploads, and logs, metrics and traces find the route.
// Code around the gate does not find
//
//   - the values of [net/http.Request.PathValue] of a router inside the gate
//   - the fields of a further copy, such as that of [net/http.TimeoutHandler], [net/http.StripPrefix] or
//     chi: a handler behind it that parses a form calls RemoveAll of the MultipartForm, as without a gate
//
// A goroutine that goes on when the handler has returned must not parse the form of the request: the gate
// reads it then, as net/http does.
//
// Handlers find trailers of the request only if the field Trailer has announced them. In Gin and Echo, the
// copy stays the request of the framework. An error handler that is the first to parse a form with files
// calls RemoveAll, too.
//
// # Requests without a key
//
// A request without a key is rejected with 401 or 400. The keys found before the missing key are
// charged, so that a client cannot try tokens without limit, and the header fields show the states
// of these keys. If their limits deny the request, the response is 429. See the option [And] for
// the order of the keys, and for the number of bad tokens that are verified.
//
// If a key function returns [keyfunc.ErrNotLimited], the gate ignores the limiter of that function.
//
// # The cost of a request
//
// A request is charged before its handler runs, so that concurrent requests cannot exceed the limit.
// Its cost is 1, or the result of [Cost] or, if the body says it, of [CostOfBody]. The handler corrects it:
//
//	Function    Effect                                         Example
//	----------  ---------------------------------------------  ----------------------------------
//	Refund      refunds the request in every limiter           a login that has succeeded
//	Reset       forgets all events of the key of one limiter   the failures of a user
//	Settle      sets the real cost, lower or higher            the bytes of the response
//	SettleFor   sets the real cost for one limiter             the tokens of a language model
//
// A limit that counts only failures refunds the successes. A login also resets the user, which the
// password has proved, but never the address, from which the same client can guess other passwords:
//
//	limit := nethttplimit.New(perAddress, ip, gate.And(perUser, name), gate.FailClosed())
//
//	err := errors.Join(gate.Reset(ctx, perUser), gate.Refund(ctx)) // in the handler, after a success
//
// The option [RefundIf] refunds a request by the status of the response instead. A status is no proof
// of success: a form redirects with 303 after a wrong password, too.
//
// The limiters of a gate can have different costs: a Cost that is an option of [And] applies to the
// limiter of that And alone. [SettleFor] then sets the real cost for one limiter. A proxy to a
// language model, for example, counts requests and tokens in one decision:
//
//	limit := nethttplimit.New(requests, user, gate.And(tokens, user, gate.CostOfBody(64<<10, maxTokens)))
//
//	err := gate.SettleFor(r.Context(), tokens, used) // in the handler
//
// # Pauses
//
// The header fields do not mention a [core.Pause] that is open. While it is closed, they have q=0 and r=0, and t and
// Retry-After are the time to its end.
//
// # Requests at the same time
//
// A [core.InFlight] limits the requests of a key that run at the same time. An admitted request takes a
// place and has it until its handler has returned, panicked or returned an error, even if the client has
// hung up. A leaky bucket delays a request that has its place already.
//
//	exports := core.Must(core.New(store, core.InFlight("exports", 5)))
//	limit := nethttplimit.New(exports, user)
//
// A gate takes places when it knows all keys and costs. A key function that reads the body, such as
// [keyfunc.FormValue], and [CostOfBody] can wait for a slow client, and no place bounds these requests. To
// bound them, put a gate with the InFlight around that of the other keys.
//
// With [core.Rule.ByCost], a request takes as many places as its [Cost], such as the tokens that its answer can have:
//
//	tokens := core.Must(core.New(store, core.InFlight("tokens", 90_000).ByCost().Unit("tokens")))
//	limit := nethttplimit.New(tokens, user, gate.Cost(estimate))
//
// A gate does not wait for places. While callers of core.Limiter.Acquire wait for places of a key, requests get none of
// those.
//
// [Refund], [Settle] and RefundIf change the costs of other rules and leave the places taken. [Reset] frees
// all places of the key: the requests that run have none from then on, and their ends free none.
//
// The end of the handler counts, not that of the connection. A handler that hijacks its connection must
// serve it before it returns. A [net/http.TimeoutHandler] inside a gate returns at the timeout while the
// handler behind it may still run without a place: put the gate inside. The function Check of an adapter
// does not know when its handler returns. With an InFlight it responds with 500, and logs the reason; call
// core.Limiter.Reserve, defer core.Reservation.Release, and respond with Deny of the adapter.
//
// In a memory store, the place is free when the gate returns, before a short response that was not flushed
// is complete. A long or flushed response can be complete earlier. For other stores, the gate frees the
// place in another goroutine, and no response waits for it: the next request of the client, if it comes at
// once, may find the place taken. If the call fails, the error is logged, and the place lapses after
// [core.Rule.Hold]. The place of a process that exits before the call lapses, too: Shutdown of
// [net/http.Server] waits only for the handlers.
//
// A request can lose its place while its handler runs, for example in a long outage of Redis, and then runs
// beside n others (see [core.Reservation.Lost]). The gate does not end it. A handler that must not go on
// waits for the channel of [Lost], too:
//
//	select {
//	case m := <-messages:
//		...
//	case <-gate.Lost(r.Context()):
//		return
//	}
//
// The header fields have no time, because a place ends by an event. The problem document has none either,
// and there is no Retry-After unless another rule denies the request, too. [Jitter] or OnDenied can set one.
//
//	RateLimit-Policy: "exports";q=5;qu="concurrent-requests"
//	RateLimit: "exports";r=4
//
// # Plans
//
// The option [Plan] chooses the limits of the caller by the name of a plan, such as "pro" (see
// [core.Rule.Plan]). The header fields and problem documents contain the limits of that plan. A
// rule that is [core.Unlimited] for the caller is not in the header fields; handlers find it in the
// decision. The response to a [core.Blocked] caller is 429 without Retry-After, with q=0 and r=0. If
// package rules has blocked the caller until a time, Retry-After and t are the seconds until then,
// and the problem document contains the time. [DeniedStatus] can make it 403.
//
// [core.Limiter.Choose] gives single keys other limits. [core.Limiter.Replace] changes the limits
// while the gate is used: each decision uses either the old rules or the new ones.
//
// # Routes
//
// The option [Routes] chooses the limiter by the route of a request, for example by the routes of a
// configuration file (package rules). One gate then serves all routes:
//
//	e.Use(echolimit.New(api, keyfunc.RemoteIP(), gate.Routes(set)))
//
// The file can also have a limit of all routes, which the gate charges in the same decision.
//
// # Clients that hang up
//
// The end of a request's context tells a gate that the client has hung up. With HTTP/2, net/http ends
// the context at once. With HTTP/1.1, a gate may not notice that a client hangs up while the handler
// runs: net/http notices it only after the handler has read the whole body, and not if the client has
// already sent its next request. The gate then treats the request as if the client had stayed:
// RefundIf gets the status of the handler, and a leaky bucket holds the request until its departure.
// A client gains nothing by hanging up in this way.
//
// # Several gates on one request
//
// A request can pass a global gate and a gate for its route. Each gate decides by itself, and the
// header fields list the rules of all gates. If several rules have the same name for clients
// ([core.Spec.Label]), only the rule with the fewest remaining units is listed. An inner gate without
// [Headers] sends the versions of the outer one; [Options] gives all gates the same choices. If an inner
// gate denies the request, the outer gate has charged it already. Use the option [And] to check both
// limits in one decision.
package gate
