// Package grpclimit limits the calls of gRPC servers, with the key functions and options of the HTTP middlewares.
//
//	api := core.Must(core.New(store, core.TokenBucket("api", core.PerSecond(10).WithBurst(30))))
//	streams := core.Must(core.New(store, core.InFlight("streams", 3)))
//	server := grpc.NewServer(
//		grpc.UnaryInterceptor(grpclimit.Unary(api, keyfunc.RemoteIP())),
//		grpc.StreamInterceptor(grpclimit.Stream(streams, keyfunc.RemoteIP())))
//
// An HTTP server and a gRPC server with one limiter count a client once.
//
// # Answers
//
// A denied call ends with RESOURCE_EXHAUSTED, the sentence that an HTTP client finds in the problem document, and these details:
//
//	google.rpc.QuotaFailure  for each rule that denied: its label (or name), unit and limit
//	google.rpc.RetryInfo     the exact wait, unless it is unknown or for ever
//
// The trailer grpc-retry-pushback-ms has the wait, too, which a client with a retry policy obeys, or -1 for ever. If calls
// that run must end first, there is neither a wait nor a trailer.
//
// The fields RateLimit-Policy and RateLimit are metadata with names in lower case, once for a call or stream: before the
// first message, or in the only frame of a call that fails before a message, because clients repeat no other calls. Several
// interceptors of this package send one set of fields. A handler that sends its header itself gets the fields as a trailer in
// a unary call.
//
// Other calls that are not let through have INVALID_ARGUMENT (no key), UNAUTHENTICATED ([keyfunc.ErrNoToken]), UNAVAILABLE
// ([gate.FailClosed] or [core.ErrFailClosed]), INTERNAL (a fault of the application), or CANCELLED and DEADLINE_EXCEEDED
// if the call has ended.
//
// # Keys
//
// Key functions and options get the call as a request: the method POST, the full method as path ("/shop.Orders/List"), the
// metadata as header, the authority as Host, the address and TLS state of the peer. The value of metadata whose name ends with
// -bin is decoded. A key function must not change the values of the header in place.
//
//	Function                      Here
//	----------------------------  -----------------------------------------------------------
//	RemoteIP                      the address of the peer: the key of the HTTP middlewares; on
//	                              a Unix socket, there is none: INVALID_ARGUMENT
//	XForwardedFor, Forwarded,     the same, from the metadata that a trusted proxy has set
//	HeaderIP, HeaderFrom
//	Header, Cookie                the same, from metadata: "header:x-api-key:..."
//	JWTSubject, JWTClaim, JWT,    the same, from the metadata authorization;
//	BasicAuthUser                 UNAUTHENTICATED without it
//	ContextSubject                a value that an interceptor before this one has stored
//	Constant, FirstOf, Join,      the same
//	Fold
//	PathValue                     no key: INVALID_ARGUMENT, and a line in the log
//	FormValue, JSONField          no key: INVALID_ARGUMENT, and a line in the log
//
// The line in the log is written for other calls without a key, too, at most once a minute. Other functions that read
// r.Body get an error that is a [keyfunc.ErrNoKey].
//
// # Options
//
//	Option of package gate        Here
//	----------------------------  -----------------------------------------------------------
//	And, Caller, Cost, Plan,      the same; a stream costs once
//	Options, Skip, Exempt
//	CostOfBody, also in And       Unary and Stream panic
//	Routes                        routes are full methods, such as "/shop.Orders/List"; a method
//	                              that the server does not have has the pattern "/_OTHER", and so
//	                              no route but "/": the limiter of Stream and that of all routes
//	                              limit it. Without a grpc.UnknownServiceHandler, grpc answers
//	                              such calls, before any interceptor
//	RefundIf                      gets the HTTP status of grpc-gateway for the code of the
//	                              handler, such as 404 for NOT_FOUND; 500 for a panic
//	DeniedStatus, OnError         choose an HTTP status: the code is the one of grpc-gateway, or
//	                              else INTERNAL from 500, RESOURCE_EXHAUSTED for a denial and
//	                              INVALID_ARGUMENT; an ended call keeps its own code
//	FailClosed                    UNAVAILABLE
//	MaxDelay                      the same
//	Headers, XRateLimitRule       the fields are metadata
//	ExposeHeaders                 metadata, for a proxy of gRPC-Web that passes it on
//	Jitter                        RetryInfo and the pushback are longer
//	OnDecision                    Status is the HTTP status of the answer, and Pattern the full
//	                              method, or "/_OTHER"
//	OnDenied, OnRejected          those of HTTP adapters: Unary and Stream panic
//
// In handlers, [gate.FromContext], [gate.Settle], [gate.Refund], [gate.Key] and the others work with the context of the call.
// [Messages] is an option of this package, for streams.
package grpclimit
