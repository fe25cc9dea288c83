// Package adapter is for authors of middlewares that bind a rate limiter to a web framework, like
// nethttplimit, ginlimit and echolimit. Applications use such an adapter and package gate, and do
// not need this package.
//
// # How to write an adapter
//
// An adapter is a New, an OnDenied, and for each request one call of [Gate.Admit]. The example of
// this package is a complete adapter.
//
//  1. New takes a limiter, a key function and the options of package gate, and calls [New] with
//     the name of the adapter and the type of the function that its OnDenied takes:
//     adapter.New[func(*fw.Context, core.Decision)]("fwlimit", l, key, opts...).
//  2. OnDenied calls [Denied] with the same name and type.
//  3. For each request, the middleware calls [Gate.Admit] with the context of the framework, the
//     header of the answer and the request. It replaces the request of the framework by the one
//     that Admit returns: its context has the decision.
//  4. If Admit returns no Rejection, the middleware runs the handler: by [Outcome.Run], with the
//     ResponseWriter of [Outcome.Watch]. If the Outcome is nil, it may run the handler directly.
//     The framework must write the answer to the ResponseWriter of Watch. If it uses another one,
//     the adapter calls [Outcome.Answer], because RefundIf gets no status otherwise.
//  5. If Admit returns a Rejection, the handler does not run. The middleware calls the function of
//     OnDenied if there is one and [gate.Rejection.Denied] is true. Otherwise it answers with the
//     Problem of the Rejection: by [WriteProblem], or as an error that the framework's own error
//     handler writes. The header fields are set by then, except Content-Type and
//     X-Content-Type-Options.
//  6. A test runs the adapter through package gatetest, the contract of all adapters.
//
// Admit does everything else: options, keys, charges, header fields, logging and the delays of
// leaky buckets. An adapter has no behaviour of its own, so that an option means the same in
// every framework.
//
// # Frameworks with other conventions
//
//   - The framework's context does not ask the context of its request for values: New calls
//     [RegisterRequestKey] with the key under which that context has the *http.Request. See
//     ginlimit.
//   - The framework is not built on net/http: the middleware makes an *http.Request with the
//     method, the URL, RemoteAddr, the header and a context that ends when the client hangs up,
//     and copies the header of the answer back.
//   - The framework has a ResponseWriter interface of its own: wrap it only if
//     [Outcome.NeedsStatus] is true, and call [Outcome.Answer] before the first byte is written
//     and [Outcome.Hijacked] after the connection was taken over. See ginlimit.
//   - Handlers return errors that an error handler answers later: the function that Run calls
//     returns false, and the adapter calls Answer when the answer is written. See echolimit.
package adapter
