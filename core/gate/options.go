package gate

import (
	"net/http"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate/internal/config"
	"github.com/weir-go/weir/core/internal/argument"
	"github.com/weir-go/weir/keyfunc"
)

// An Option changes how a middleware limits requests. The options are the functions of this package
// that return an Option, and OnDenied of each adapter. If an option is given twice, the later one
// counts; every [And] adds a key.
type Option interface{ argument.Option[config.Config] }

type option = argument.OptionFunc[config.Config]

// And adds another key to the decision: a request is admitted if l admits it as well, and is
// charged to all limiters or to none. If two key functions of a gate find the same key for the same
// limiter, the key is charged once and has its States once.
//
// The key functions run in order, that of New first. If any of them finds no key, the request is
// rejected. The keys before the missing one are still charged the [Cost] of the request, or 1 if
// the cost is zero. If their limits deny the request, the answer is 429. The keys after the missing
// one are neither found nor charged. Put an address before a token, which takes time to verify. Put
// a key that all clients share last, because otherwise requests without a token would use up its
// limit:
//
//	nethttplimit.New(perIP, ip, gate.And(perUser, user), gate.And(system, keyfunc.Constant("all")))
//
// A key becomes exhausted when its limit denies a request, or when a rejected request leaves it
// without capacity for another one. Until the limit has recovered (for 10 seconds to an hour), the
// gate charges an exhausted key before it runs the later key functions. The number of bad tokens
// that are verified for an address is therefore at most its limit, plus the requests in progress
// when the address becomes exhausted. If requests with good tokens have used up the limit, one more
// bad token is verified. Each process keeps its own list of exhausted keys.
//
// While a key is exhausted, an admitted request takes two calls of the Store instead of one. If a
// later key denies the request, a third call refunds the first charge, which the fields still
// count. If the exhausted key denies the request, the decision has no States of later keys. A gate
// remembers at most 8192 exhausted keys. If it forgets one, the token of the next request of that
// key is verified.
//
// All limiters of a gate must be on one Store. And panics if l or key is nil.
func And(l *core.Limiter, key keyfunc.Func) Option {
	argument.NotNil("gate: And", "limiter", l)
	argument.NotNil("gate: And", "key function", key)
	return option(func(c *config.Config) { c.And = append(c.And, config.Ask{Limiter: l, Key: key}) })
}

// Cost sets the cost of a request, which every limiter of the gate is charged. The default is 1. A
// cost of 0 charges nothing, but is denied if the limit is exhausted. A cost above the capacity of
// a rule is denied without a Retry-After. A negative cost is a fault of the application: the answer
// is 500 unless [OnError] chooses another.
//
// f runs before the key functions and the handler, so it must not read the body. [Settle] corrects
// the cost afterwards. Cost panics if f is nil.
func Cost(f func(r *http.Request) int) Option {
	argument.NotNil("gate: Cost", "function", f)
	return option(func(c *config.Config) { c.Cost = f })
}

// RefundIf refunds the cost of a request if f returns true for the status of the answer, for
// example to count only failed logins, or only requests that succeeded. While its handler runs, the
// request counts, so the handlers of concurrent logins cannot exceed the limit. The fields of the
// answer count the request, too. The refund takes another call of the Store, and includes changes
// of the cost by [Settle].
//
// The refund is made when the handler has returned. A small answer that was not flushed is sent
// after that. A handler that panics counts as status 500, whatever it wrote; a hijacked connection
// counts as 101; a handler that writes nothing counts as 200. Informational answers (1xx) do not
// count. If the error handler of Echo, or an error middleware around a gate in Gin, writes the
// answer later, f gets the status of that answer; if none is written, nothing is refunded.
//
// Nothing is refunded if, when the handler returns, the client is known to have hung up or the
// deadline of the request has passed. Otherwise sending a request and hanging up would be cheaper
// than waiting for the answer. If net/http does not notice that a client of HTTP/1.1 has hung up,
// the client is treated as if it had stayed: see the package comment.
//
// To count failures, use a [core.SlidingLog] or [core.SlidingWindow]. With a bucket, a client that
// holds many requests open and chooses which of them succeed can keep the tokens that refill in the
// meantime (see [core.Reservation.Refund]).
//
// If the Store fails, the error is logged, the request stays charged and its answer stays the same;
// [OnError] is not called. Only RefundIf wraps the ResponseWriter: see the package comment. f is
// called concurrently. RefundIf panics if f is nil.
func RefundIf(f func(status int) bool) Option {
	argument.NotNil("gate: RefundIf", "function", f)
	return option(func(c *config.Config) { c.RefundIf = f })
}

// MaxDelay denies, at once, a request that a leaky bucket would hold for longer than d. The request
// is charged nothing, and the Retry-After of the answer is the time until the delay would be at
// most d. The bound is part of the Store's decision, so it also holds for concurrent requests.
// Without MaxDelay, a request is held for as long as the queue requires. Rules of other algorithms
// have no delay. If d is less than a microsecond, only requests without a delay are admitted.
//
// MaxDelay panics if d is not positive.
func MaxDelay(d time.Duration) Option {
	if d <= 0 {
		panic("gate: MaxDelay: duration is not positive")
	}
	return option(func(c *config.Config) { c.MaxDelay = d })
}

// CountInFlight calls c.Begin for every request that this gate lets through, when its delay is over
// and the handler is about to run, and c.End when the handler has returned or panicked. Requests
// that are let through undecided, because the Store failed, are counted; skipped requests are not.
// Use it for a limit that depends on the load, such as one with [core.Rule.Elastic]. If a request
// passes several gates, give the option to one of them.
//
// CountInFlight panics if c is nil.
func CountInFlight(c InFlightCounter) Option {
	argument.NotNil("gate: CountInFlight", "counter", c)
	return option(func(cfg *config.Config) { cfg.InFlight = c })
}

// An InFlightCounter counts the requests that are being served. Both methods are called
// concurrently, and must be quick.
type InFlightCounter interface {
	Begin() // a handler is about to run
	End()   // the handler has returned, or panicked
}

// Skip lets a request through if f returns true for it, as if there were no gate: the request needs
// no key, is charged nothing and gets no fields. Skip is for health checks and CORS preflight. Do
// not skip on a header field that clients can set. Skip panics if f is nil.
func Skip(f func(r *http.Request) bool) Option {
	argument.NotNil("gate: Skip", "function", f)
	return option(func(c *config.Config) { c.Skip = f })
}

// FailClosed answers 503 with Retry-After if the Store cannot decide about a request. Use it for
// routes where an unlimited request is worse than none, such as a login. Without FailClosed, such a
// request is let through without a limit; only a [core.ErrFailClosed] is always answered with 503.
// [OnError] can choose another answer in either case.
func FailClosed() Option {
	return option(func(c *config.Config) { c.FailClosed = true })
}

// OnError calls f for every request that could not be identified or decided, and lets f choose the
// answer. status is the answer that the gate would give: 0 lets the request through. The result of
// f is one of these:
//
//   - 0 lets the request through without a limit. If a key is missing, the keys before it have
//     been charged (see [And]); f is not called if their limits deny the request.
//   - 400 to 599 is the status of the answer, a [Problem].
//   - Any other number stands for status.
//
// err is one of these:
//
//   - [keyfunc.ErrNoToken], status 401: a key function requires a bearer token.
//   - Any other [keyfunc.ErrNoKey], status 400.
//   - Any other error of a key function, or [core.ErrNegativeCost], status 500.
//   - The error of the Store, status 0. The status is 503 with [FailClosed] or for a
//     [core.ErrFailClosed], and 500 if the Store cannot take so many rules in one decision.
//   - The error of a request that has ended (r.Context().Err() is not nil), status 503. The
//     Store is not the cause. The result 0 means 503 here, because otherwise a client could
//     pass the limit by hanging up.
//
// The client sees nothing of err. Without OnError, faults of the Store and of the application are
// logged through [log/slog.Default] at level Warn, at most one line a second for each gate. With
// OnError, only a refund that failed is logged, because the answer was chosen already. f is called
// concurrently. OnError panics if f is nil.
func OnError(f func(r *http.Request, err error, status int) int) Option {
	argument.NotNil("gate: OnError", "function", f)
	return option(func(c *config.Config) { c.OnError = f })
}

// ExposeHeaders lets scripts of other origins read the fields of the gate: it adds their names to
// Access-Control-Expose-Headers (Fetch standard), after the names that are there already. A CORS
// middleware that replaces Access-Control-Expose-Headers must come before the gate.
func ExposeHeaders() Option {
	return option(func(c *config.Config) { c.Expose = true })
}
