// Package connectlimit limits the calls of Connect servers (connectrpc.com/connect, version 1). The middleware is that
// of package nethttplimit. [Answers] is an option of it, which makes each denial and rejection an error in the protocol
// of the caller: Connect, gRPC or gRPC-Web.
//
//	limit := nethttplimit.New(api, user, connectlimit.Answers(connect.NewErrorWriter()))
//	path, handler := greetv1connect.NewGreetServiceHandler(service, opts...)
//	mux.Handle(path, limit(handler))
//
// The middleware decides before the message is read, decompressed and decoded. A stream counts as one call, when it
// begins, and has its places of a [core.InFlight] until its handler has returned. A handler gets the decision from
// [gate.FromContext] with its ctx, and [gate.Settle], [gate.Refund] and the other functions for handlers take the same
// ctx.
//
// # Errors
//
// The status that the gate chooses, for plain HTTP, determines the code:
//
//	status               code                 by default for
//	400                  invalid_argument     a caller without a key
//	401                  unauthenticated      a caller without a valid token
//	403                  permission_denied
//	404                  not_found
//	413, 429             resource_exhausted   a denial
//	501                  unimplemented
//	503                  unavailable          a call that cannot be decided, with gate.FailClosed
//	504                  deadline_exceeded
//	others of denials    resource_exhausted
//	others from 500 on   internal             a fault of the application
//	others               failed_precondition
//
// The code of a call that has ended is canceled or deadline_exceeded. [gate.DeniedStatus] and [gate.OnError] choose the
// status, and so the code. The code determines the status of the response: connect sends the one of the code for a
// call without a stream in the Connect protocol, and 200 in all other cases.
//
// The message of the error is the detail of the problem document ([gate.Problem]). A denial has these details:
//
//   - google.rpc.QuotaFailure has a violation for each rule that denied. quota_id is the label of the rule, or its name
//     without a label. quota_metric is its unit, by default requests, and concurrent-requests for places. quota_value is
//     its capacity, which is also the parameter q of RateLimit-Policy. description is its limit, such as "100/m". There
//     is no subject, which would be the key.
//   - google.rpc.RetryInfo has the wait of the decision, with [gate.Jitter] plus the random seconds of Retry-After. It
//     is absent if the call can never be admitted, or if the wait is unknown, as for places.
//
// The error of a call that cannot be decided has a RetryInfo of one second. For gRPC and gRPC-Web, the wait is also in the metadata
// grpc-retry-pushback-ms, where -1 tells clients not to repeat a call that can never be admitted, or not within 24 days.
// For gRPC, connect sends a header before the status, and grpc-go repeats no call after a header.
//
// RateLimit-Policy, RateLimit, Retry-After and the other fields of the gate are header fields of the response, which
// clients read as its leading metadata. An admitted call has them, too.
//
// # Options and key functions
//
// All options of package gate can be used. A route of [gate.Routes] is a method, such as
// POST /greet.v1.GreetService/Greet. The path of a call is that of its method, and its metadata are header fields, so key
// functions read them as they do for HTTP. These have a restricted meaning:
//
//   - [gate.RefundIf] gets the status of the HTTP response, which is 200 for gRPC, gRPC-Web and streams whatever the
//     code. The handler can call [gate.Refund] instead.
//   - [gate.CostOfBody], keyfunc.FormValue and keyfunc.JSONField read the body before connect does. The body of a
//     stream, of gRPC and of gRPC-Web is not JSON but has binary frames, and any body may be compressed.
//   - [gate.MaxDelay] bounds the delay by a leaky bucket. The timeout of a call, in grpc-timeout or Connect-Timeout-Ms,
//     does not, because connect reads it after the gate. A client that gives up ends the delay.
//   - nethttplimit.Check and Deny need a ResponseWriter, which a handler of connect does not have. It calls
//     [core.Limiter.Allow], and returns a connect.Error.
//   - nethttplimit.OnDenied and OnRejected replace Answers, or are replaced by it: the later option is used.
package connectlimit
