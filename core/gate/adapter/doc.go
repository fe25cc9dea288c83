// Package adapter is for authors of middlewares that bind a rate limiter to a web framework, like
// nethttplimit, ginlimit and echolimit. Applications use such an adapter and package gate, and do
// not need this package.
//
// # How to write an adapter
//
// An adapter consists of the functions New, Limit, PerIP, OnDenied, OnRejected, Check and Deny. The example of this
// package is a complete adapter.
//
//  1. New takes a limiter, a key function and the options of package gate, and calls [New] with
//     the name of the adapter, which must end in "limit", or in "limit" and a major version
//     ("fwlimit/v2"), and the type of the functions that write a response:
//     adapter.New[func(*fw.Context, *gate.Rejection)]("fwlimit", l, key, opts...).
//  2. OnDenied and OnRejected call [Denied] and [Rejected] with the same name and type. OnDenied may
//     take a function of a core.Decision, and wrap it. If the function of OnRejected writes nothing,
//     the adapter must send the status of the Problem.
//  3. For each request, the middleware calls [Gate.Admit] with the context of the framework, the
//     header of the response, the request, and the pattern of the route that the framework has
//     matched, if it has its own. It must replace the framework's request by the request that
//     Admit returns, whose context contains the decision, and defer [CopyBack].
//  4. If Admit returns no Rejection, the middleware runs the handler with [Outcome.Run], and with
//     the ResponseWriter of [Outcome.Watch]. If the Outcome is nil, it may run the handler
//     directly. The framework must write the response to the ResponseWriter of Watch. If the
//     framework uses another ResponseWriter, the adapter must call [Outcome.Answer], because
//     RefundIf gets no status otherwise.
//  5. If Admit returns a Rejection, the handler must not run. If the function responder of New has a
//     function of the application for the Rejection, the middleware calls it. Otherwise it sends the
//     Problem of the Rejection: with [WriteProblem], or as an error that the framework's own error
//     handler writes. The header fields are already set, except Content-Type and
//     X-Content-Type-Options.
//  6. Limit passes the limiter of [Limiter], the key function and its options to New, and PerIP calls Limit with a
//     memory store, a sliding window called "ip", and [keyfunc.RemoteIP].
//  7. Check and Deny call [Check] and [Deny], and send the Problem of the Rejection in the same way.
//  8. A test must call Run of package gatetest, which checks the contract of all adapters. The page of
//     gatetest lists its requirements, such as the largest number of allocations.
//
// Admit does everything else: options, keys, charges, header fields, logging and the delays of
// leaky buckets. An adapter must not add behaviour, so that an option means the same in every
// framework.
//
// # Frameworks with other conventions
//
//   - If the method Value of the framework's context does not search the request's context, the
//     adapter must call [RegisterRequestKey] in an init function, with the key under which the
//     framework's context stores the *http.Request. See ginlimit.
//   - If the framework is not built on net/http, the middleware must make an *http.Request with the
//     method, the URL, RemoteAddr, the header and a context that ends when the client hangs up, and
//     copy the header of the response back. See grpclimit.
//   - If the framework has its own ResponseWriter interface, wrap it only if
//     [Outcome.NeedsStatus] is true, and call [Outcome.Answer] before the first byte is written,
//     and with the status 101 after the connection was taken over. See ginlimit.
//   - If handlers return errors and an error handler writes the response, the function that Run
//     calls must return false, and the adapter must call Answer when the response is written. See
//     echolimit.
package adapter
