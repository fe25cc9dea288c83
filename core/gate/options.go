package gate

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/gate/internal/config"
	"github.com/weir-go/weir/core/internal/argument"
	"github.com/weir-go/weir/keyfunc"
)

// An Option configures a middleware. Functions of this package and OnDenied of each adapter return
// Options. If an option is given twice, the later one is used, but every [And] adds a key.
type Option interface{ argument.Option[config.Config] }

type option = argument.OptionFunc[config.Config]

// And adds another key and limiter to the gate. A request is admitted only if all limiters admit
// it, and is charged to all of them or to none. If two key functions return the same key for the
// same limiter, that key is charged once, and the decision contains its States once. And panics if
// l or key is nil. All limiters of a gate must use the same Store.
//
// The options [Cost] and [Plan] of And apply to l alone. A gate's own Cost and Plan apply to every
// limiter without its own. And panics if another option is given:
//
//	gate.And(tokensPerMinute, user, gate.Cost(estimate))
//
// Key functions run in order, starting with that of New. If a key function finds no key, the
// request is rejected and later key functions do not run. The keys found so far are still charged
// the [Cost] of the request, but at least 1. If this denies the request, the response is 429.
//
// Put cheap keys, such as addresses, before expensive ones, such as tokens. Put a key that all
// clients share last, so that requests without a token cannot use up its limit:
//
//	nethttplimit.New(perIP, ip, gate.And(perUser, user), gate.And(system, keyfunc.Constant("all")))
//
// A key is exhausted after its limit has denied a request, or after a rejected request was charged
// and has left too little capacity for another such request. Until the limit has recovered (for at
// least 10 seconds and at most an hour), the gate charges an exhausted key before it runs later key
// functions. The limit of an address therefore also bounds the number of bad tokens that each
// process verifies for it. A few more bad tokens are verified: those of requests in progress when
// the key becomes exhausted, one after good requests have used up the limit, and one after the gate
// has forgotten the key. A gate remembers at most 8192 exhausted keys.
//
// While a key is exhausted, an admitted request takes two Store calls instead of one. If a later
// key denies the request, a third call refunds the first charge, which the header fields still
// include. If the exhausted key denies the request, the decision contains no States for later keys.
func And(l *core.Limiter, key keyfunc.Func, opts ...Option) Option {
	argument.NotNil("gate: And", "limiter", l)
	argument.NotNil("gate: And", "key function", key)
	own := config.Config{Inherits: true}
	argument.Apply("gate: And", &own, opts)
	a := config.Ask{Limiter: l, Key: key, Cost: own.Cost, Plan: own.Plan}
	own.Cost, own.Plan, own.Inherits = nil, nil, !own.Inherits
	if !reflect.ValueOf(own).IsZero() {
		panic("gate: And: only Cost and Plan can be given for one limiter")
	}
	return option(func(c *config.Config) { c.And = append(c.And, a) })
}

// Plan makes f determine the plan of the caller, whose limits apply to the request: see
// [core.Rule.Plan]. f is a key function whose result is the name of a plan, such as a claim of the
// token that identifies the caller:
//
//	tokens := keyfunc.NewJWT(keys, []string{"RS256"})
//	nethttplimit.New(api, tokens.Subject(), gate.Plan(tokens.Claim("plan")))
//
// If f returns "" or [keyfunc.ErrNoKey], such as for a token without that claim, the limits without
// a plan apply. They also apply to a plan that no rule of a limiter has, with a warning: see
// [core.Limiter.Plan]. Other errors of f are treated like those of key functions: that limiter is
// charged nothing. f must not trust a header field, because a client would choose its limits. Plan
// panics if f is nil.
//
// f runs for each limiter whose rules have plans, or that [core.Limiter.Choose] has made, after the
// key function of that limiter and even if the key is exhausted. If f verifies tokens, the limiter
// of the address should have no plans and come first, so that the address bounds the number of bad
// tokens:
//
//	nethttplimit.New(perIP, ip, gate.And(perUser, tokens.Subject()), gate.Plan(tokens.Claim("plan")))
func Plan(f keyfunc.Func) Option {
	argument.NotNil("gate: Plan", "function", f)
	return option(func(c *config.Config) { c.Plan = f })
}

// Cost makes f determine the cost of a request, which is charged to every limiter of the gate that
// has no Cost of its own (see [And]). The default is 1. A cost of 0 charges nothing, but is denied
// if the limit is exhausted. A cost above the capacity of a rule is denied without a Retry-After;
// [DeniedStatus] can make the status 413. A negative cost is a fault of the application: the
// response is 500 unless [OnError] chooses another status.
//
// f runs before the key functions and the handler, so it must not read the body. ctx is the context
// that key functions get ([keyfunc.Func]). [Settle] corrects the cost afterwards; without it, the
// result of f stays charged. Cost panics if f is nil.
func Cost(f func(ctx context.Context, r *http.Request) int) Option {
	argument.NotNil("gate: Cost", "function", f)
	return option(func(c *config.Config) { c.Cost = f })
}

// RefundIf makes the gate refund the cost of a request if f returns true for the status of the
// response, for example to count only failed logins, or only requests that succeeded. The refund
// includes changes of the cost by [Settle]. f is called concurrently. RefundIf panics if f is nil.
//
// While its handler runs, the request is counted, so concurrent logins cannot exceed the limit. The
// header fields of the response count the request, too. The refund takes another call of the Store
// when the handler has returned. A small response that was not flushed is sent only after that
// call. If the Store fails, the error is logged, the request stays charged and the response stays
// the same, without a call of [OnError].
//
// A handler that panics counts as status 500, whatever it wrote. A hijacked connection counts as
// 101. Informational responses (1xx) are ignored. If the handler returns without a response, and the
// error handler of Echo, an error middleware around a gate in Gin, or code around a net/http gate
// writes the response later, f gets the status of that response. If no response is written, nothing
// is refunded; only a handler of Gin or Echo that reports no error then counts as 200.
//
// Nothing is refunded if, when the handler returns, the client is known to have hung up or the
// deadline of the request has passed. Otherwise sending a request and hanging up would be cheaper
// than waiting for the response. The package comment says when hanging up goes unnoticed.
//
// To count failures, use a [core.SlidingLog] or [core.SlidingWindow]. With a bucket, a client that
// holds many requests open and chooses which of them succeed can get refunds in addition to the
// tokens that refill in the meantime (see [core.Reservation.Refund]).
//
// No other option makes the gate wrap the ResponseWriter of a handler: see the package comment.
func RefundIf(f func(status int) bool) Option {
	argument.NotNil("gate: RefundIf", "function", f)
	return option(func(c *config.Config) { c.RefundIf = f })
}

// MaxDelay makes the gate deny a request at once if a leaky bucket would hold it for longer than d.
// The request is charged nothing, and its Retry-After is the time until the delay would be at most
// d. The Store applies the bound, which therefore also holds for concurrent requests. Without
// MaxDelay, a request is held for as long as the queue requires. Rules of other algorithms have no
// delay. If d is less than a microsecond, only requests without a delay are admitted.
//
// MaxDelay panics if d is not positive.
func MaxDelay(d time.Duration) Option {
	if d <= 0 {
		panic("gate: MaxDelay: duration is not positive")
	}
	return option(func(c *config.Config) { c.MaxDelay = d })
}

// CountInFlight makes the gate call c.Begin for every request that it lets through, after the delay
// and before the handler runs, and c.End when the handler has returned or panicked. Requests that
// are let through undecided, because the Store failed, are counted; skipped requests are not. Use
// the option for a limit that depends on the load, such as one with [core.Rule.Elastic]. If a
// request passes several gates, give the option to one of them.
//
// CountInFlight panics if c is nil.
func CountInFlight(c InFlightCounter) Option {
	argument.NotNil("gate: CountInFlight", "counter", c)
	return option(func(cfg *config.Config) { cfg.InFlight = c })
}

// An InFlightCounter counts the requests that are being served. Both methods are called
// concurrently and must return quickly.
type InFlightCounter interface {
	Begin() // a handler is about to run
	End()   // the handler has returned, or panicked
}

// FailClosed makes the gate respond with 503 and Retry-After if the Store cannot decide about a
// request. Use it for routes where an unlimited request is worse than a rejected request, such as a
// login. Without FailClosed, such a request is let through without a limit; only a
// [core.ErrFailClosed] always leads to 503. [OnError] can choose another status in either case.
func FailClosed() Option {
	return option(func(c *config.Config) { c.FailClosed = true })
}

// OnError makes the gate call f for every request that could not be identified or decided. f
// chooses the status of the response. Its parameter status is the gate's own choice, where 0 lets
// the request through. The result of f means:
//
//   - 0 lets the request through without a limit. If a key is missing, the keys before it have been
//     charged (see [And]); f is not called if their limits deny the request.
//   - 400 to 599 is the status of the response, which contains a [Problem].
//   - Any other number means the parameter status, the choice of the gate.
//
// err is one of these:
//
//   - [keyfunc.ErrNoToken], status 401: a key function requires a bearer token.
//   - Any other [keyfunc.ErrNoKey], and [ErrPath], status 400.
//   - Any other error of a key function, or [core.ErrNegativeCost], status 500.
//   - A [core.ErrInvalidAsk], status 500: the function of [core.Limiter.Choose] has failed, or the
//     gate asks about two limits for one rule and key, such as two plans.
//   - The error of the Store, status 0. The status is 503 with [FailClosed] or for a
//     [core.ErrFailClosed], and 500 if the Store cannot take so many rules in one decision.
//   - The error of a request that has ended (r.Context().Err() is not nil), status 503. The Store
//     is not the cause. The result 0 means 503 here, because otherwise a client could pass the
//     limit by hanging up.
//
// err is not sent to the client. Without OnError, faults of the Store and of the application are
// logged through [log/slog.Default] at level Warn, at most one line a second for each gate. With
// OnError, only failed refunds are logged. f is called concurrently. OnError panics if f is nil.
func OnError(f func(r *http.Request, err error, status int) int) Option {
	argument.NotNil("gate: OnError", "function", f)
	return option(func(c *config.Config) { c.OnError = f })
}

// DeniedStatus makes f choose the status of the response to a denied request, from 400 to 599. Any
// other result means 429, the default. d.RetryAfter is [core.Never] if the cost is above the
// capacity of a rule, and also if the caller is [core.Blocked] for ever. Test for Blocked first:
//
//	gate.DeniedStatus(func(d core.Decision) int {
//		switch {
//		case d.Blocked():
//			return http.StatusForbidden
//		case d.RetryAfter == core.Never:
//			return http.StatusRequestEntityTooLarge
//		}
//		return http.StatusTooManyRequests
//	})
//
// With another status than 429, the [Problem] has the type about:blank and the title of the status.
// Its detail, its violated policies, Retry-After and all other header fields stay the same. OnDenied
// of an adapter chooses its own status. f is called concurrently. DeniedStatus panics if f is nil.
func DeniedStatus(f func(d core.Decision) int) Option {
	argument.NotNil("gate: DeniedStatus", "function", f)
	return option(func(c *config.Config) { c.DeniedStatus = f })
}

// ExposeHeaders lets scripts of other origins read the header fields of the gate. The gate then
// adds their names to Access-Control-Expose-Headers (Fetch standard), after the names that are
// there already. A CORS middleware that replaces that field must run before the gate.
func ExposeHeaders() Option {
	return option(func(c *config.Config) { c.Expose = true })
}
