package gate

import (
	"net/http"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate/internal/config"
	"github.com/weir-go/weir/core/internal/argument"
	"github.com/weir-go/weir/keyfunc"
)

// An Option changes how a middleware limits requests. The options are the functions of this
// package that return one, and OnDenied of each adapter. Of two that set the same thing the
// later counts; every option [And] adds.
type Option interface{ argument.Option[config.Config] }

type option = argument.OptionFunc[config.Config]

// And adds another key to the same decision: the request is let through if l admits it
// as well, and charged to both or to neither. If two key functions of a gate find the same
// key for the same limiter, it is charged once and has its States once.
//
// The key functions run in order, that of New first. A request for which one finds no key
// is rejected, as it is without the first key. The keys before that one are charged all
// the same, with the [Cost] of the request or 1 if that is zero; if they are denied, so is
// the request, with 429. The keys after it are neither found nor charged. So an address
// comes before a token, which takes time to verify, and a key that all clients share comes
// last, or requests without a token would use it up:
//
//	nethttplimit.New(perIP, ip, gate.And(perUser, user), gate.And(system, keyfunc.Constant("all")))
//
// A key is exhausted when it is denied, or when it has nothing left after a request that
// was rejected. From then on the gate charges it before it runs the later key functions,
// until the limit has recovered: for 10 seconds to an hour. So for each address no more bad
// tokens are verified than its limit admits, and those that are under way when the address
// becomes exhausted. If requests with good tokens have used up the limit, one more is
// verified. Every process finds out by itself.
//
// While a key is exhausted, a request that is admitted takes two calls of the Store instead
// of one. If a later key denies it, a third call refunds the first charge, which the fields
// still count. If the exhausted key denies it, the decision has no States of later keys. A
// gate knows 8192 exhausted keys at most. If it forgets one, a token of the next request of
// that key is verified.
//
// All limiters of a gate must be on one Store. And panics if l or key is nil.
func And(l *core.Limiter, key keyfunc.Func) Option {
	argument.NotNil("gate: And", "limiter", l)
	argument.NotNil("gate: And", "key function", key)
	return option(func(c *config.Config) { c.And = append(c.And, config.Ask{Limiter: l, Key: key}) })
}

// Cost sets the weight of a request, which every limiter of the gate is
// charged; the default is 1. Zero takes nothing, but is denied while nothing is
// left. More than the capacity of a rule is denied without a Retry-After. A
// negative weight is a fault: the answer is 500 unless [OnError] says otherwise.
//
// f runs before the key functions and the handler, so it must not read the body. [Settle] corrects
// the cost afterwards. Cost panics if f is nil.
func Cost(f func(r *http.Request) int) Option {
	argument.NotNil("gate: Cost", "function", f)
	return option(func(c *config.Config) { c.Cost = f })
}

// RefundIf gives back what a request took if f says so, given the status of the
// answer of its handler: to count only failed logins, say, or only requests that succeeded. While
// its handler runs a request counts, so that of many logins at once no more than
// the limit reach the handler. The fields of the answer say what is left with the
// request counted. What comes back is what the request costs by then, [Settle]
// included; it takes another call of the Store.
//
// It happens when the handler has returned, so before a client has seen an answer
// that is small and was not flushed. A handler that panics counts as 500, whatever
// it wrote; a connection that was taken over counts as 101; and no answer at all is
// 200. Informational answers do not count. Where the error handler of Echo, or an
// error middleware around a gate in Gin, writes the answer later, it is decided
// then, and if nobody writes one, nothing is given back.
//
// Nothing is given back to a client that is known to have gone when the handler
// returns, or whose request is out of time: otherwise sending and hanging up would be
// cheaper than waiting for the answer. net/http does not notice a client of HTTP/1.1
// that hangs up behind a body that the handler has not read, or behind its next
// request. Such a client is treated as if it had stayed: see the package comment. To count failures, use a [core.SlidingLog] or [core.SlidingWindow]:
// of a bucket, a client that holds many requests open and chooses which succeed can keep
// what refills meanwhile (see [core.Reservation.Refund]). If the Store fails, that is logged, what was taken stays taken, and the
// answer is as it is; [OnError] is not told.
//
// Only with RefundIf is the ResponseWriter wrapped: see the package comment. f is
// called concurrently. RefundIf panics if f is nil.
func RefundIf(f func(status int) bool) Option {
	argument.NotNil("gate: RefundIf", "function", f)
	return option(func(c *config.Config) { c.RefundIf = f })
}

// MaxDelay answers 429, at once, to a request that a leaky bucket would hold for
// longer than d, and takes nothing for it. Its Retry-After is the time until the wait
// would be short enough. The Store sees to it, so it holds for many requests at once.
// Without MaxDelay a request is held for as long as the queue lasts. Other rules have
// no delay. Less than a microsecond accepts none at all.
//
// MaxDelay panics if d is not positive.
func MaxDelay(d time.Duration) Option {
	if d <= 0 {
		panic("gate: MaxDelay: duration is not positive")
	}
	return option(func(c *config.Config) { c.MaxDelay = d })
}

// CountInFlight tells c about every request that this gate lets through: Begin when
// its turn has come and the handler is about to run, End when the handler has
// returned or panicked. Requests that the Store could not decide are counted if they
// are let through, for they are work as well; skipped ones are not. It is for a
// limit that depends on the load, such as one with [core.Rule.Elastic]. Of several
// gates on a request, give it to one.
//
// CountInFlight panics if c is nil.
func CountInFlight(c InFlightCounter) Option {
	argument.NotNil("gate: CountInFlight", "counter", c)
	return option(func(cfg *config.Config) { cfg.InFlight = c })
}

// An InFlightCounter counts the requests that are being served. Both methods are
// called concurrently, and must be quick.
type InFlightCounter interface {
	Begin() // a handler is about to run
	End()   // it has returned, or panicked
}

// Skip lets requests through that f returns true for, as if there were no gate:
// they need no key, are charged nothing and get no fields. It is for health
// checks and CORS preflight. What f looks at is the client's to choose, so a
// header is rarely a good reason. Skip panics if f is nil.
func Skip(f func(r *http.Request) bool) Option {
	argument.NotNil("gate: Skip", "function", f)
	return option(func(c *config.Config) { c.Skip = f })
}

// FailClosed answers 503 with Retry-After to requests that the Store could not
// decide. Without it they are let through, unlimited, except for a
// [core.ErrFailClosed], which is a 503 in any case, unless [OnError] says otherwise. It is for routes where an
// unlimited request is worse than none, such as a login.
func FailClosed() Option {
	return option(func(c *config.Config) { c.FailClosed = true })
}

// OnError calls f for every request that could not be identified or decided,
// and lets it choose the answer. status is what the gate is about to do, and the
// result is what it does instead:
//
//   - 0 lets the request through, unlimited. If a key is missing, those before it have
//     been charged (see the option [And]), and a request that they deny is not asked about;
//   - 400 to 599 is the status of the answer, a [Problem];
//   - anything else means status.
//
// err is one of these:
//
//   - [keyfunc.ErrNoToken], status 401: a key function wants a bearer token;
//   - any other [keyfunc.ErrNoKey], status 400;
//   - any other error of a key function, or [core.ErrNegativeCost], status 500;
//   - the error of the Store, status 0; 503 with [FailClosed] or for a
//     [core.ErrFailClosed]; 500 for more rules than the Store takes in one decision;
//   - the error of a request that has ended (r.Context().Err() is not nil),
//     status 503. The Store is not to blame. Here 0 means 503, for otherwise
//     hanging up would be a way past the limit.
//
// Nothing of err reaches the client. Without OnError, faults of the Store and
// of the application are logged through [log/slog.Default] at level Warn, at
// most one line a second for each gate. With it, only what is too late to choose an
// answer for is logged: that something could not be given back. f is called
// concurrently. OnError panics if f is nil.
func OnError(f func(r *http.Request, err error, status int) int) Option {
	argument.NotNil("gate: OnError", "function", f)
	return option(func(c *config.Config) { c.OnError = f })
}

// ExposeHeaders lets scripts of other origins read the fields of the gate: it adds
// their names to Access-Control-Expose-Headers (Fetch standard), after the names
// that are there already. A CORS middleware that replaces that field must come
// before the gate.
func ExposeHeaders() Option {
	return option(func(c *config.Config) { c.Expose = true })
}
