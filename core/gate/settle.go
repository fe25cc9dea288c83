package gate

import (
	"context"
	"errors"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/argument"
)

var (
	// ErrNotAdmitted is the error of [Settle], [SettleFor], [Refund] and [Reset] if no gate or Check has
	// charged the request: it was skipped or denied, its key function returned [keyfunc.ErrNotLimited], the
	// Store failed, or there is no such gate. A handler can ignore it, because nothing was charged. For
	// a [core.Unlimited] caller, all of them return nil.
	ErrNotAdmitted = errors.New("weir: the request was not admitted by a gate")
	// ErrSeveralCosts is the error of [Settle] if limiters of the gate have a [Cost] of their own.
	ErrSeveralCosts = errors.New("weir: limiters of the gate have costs of their own: use SettleFor")
)

// Settle sets the real cost of a request, for example its bytes, or the tokens of a language model.
// ctx is as for [FromContext]. cost is the total and replaces the cost that was charged before.
// Settle debits or refunds the difference for every limiter of the innermost gate, as
// [core.Reservation.Settle] does. A debit puts a key into debt if necessary. Settling the same cost
// again does nothing. If a limiter of the gate has a cost of its own (see [And]) and cost is not zero,
// Settle returns [ErrSeveralCosts]. The places of a [core.InFlight] are free when the handler has
// returned, and not before, whatever Settle, [SettleFor] and [Refund] do. They stay as many as they are.
//
// Check of an adapter charges an event of its own: [SettleFor] settles it. Settle does so only in a handler
// without a gate around it, for the last Check.
//
// If the innermost gate has not admitted the request, Settle returns [ErrNotAdmitted], even if an
// outer gate has admitted the request. If cost is negative, Settle returns [core.ErrNegativeCost].
// After an error of the Store, the difference may have been debited or refunded; Settle does not
// try again. The header fields of the response and [FromContext] still describe the first charge.
//
// Settle may be called from several goroutines, and after the request has ended: ctx only
// identifies the request, and the Store bounds the time that Settle takes. After the request has
// ended, pass a copy of a *gin.Context, because Gin reuses the original.
func Settle(ctx context.Context, cost int) error {
	rec := recordFrom(ctx)
	if rec != nil && rec.gate.check { // there is no gate
		rec = rec.innermost()
	}
	switch {
	case rec == nil || !rec.charged():
		return ErrNotAdmitted
	case cost > 0 && rec.gate.ownCosts:
		return ErrSeveralCosts
	}
	return rec.reservation.Settle(rec.detached(), cost)
}

// SettleFor is [Settle] for one limiter: l, or the limiter that l is a view of, whatever plan or
// variant was in force. It looks for the last Check of the handler that has charged l, then for the innermost
// gate that has charged l for the request, and returns [ErrNotAdmitted] if there is none. SettleFor finds only
// the last one of several Checks of one limiter just after each other, and a ninth Check hides the eight before
// it. A handler can
// ignore that error: the request was let through without a limit, for example while the Store was down. Defer
// SettleFor, so that the cost of a handler that fails is settled, too, for example at 0.
func SettleFor(ctx context.Context, l *core.Limiter, cost int) error {
	for rec := recordFrom(ctx).innermost(); rec != nil && l != nil; rec = rec.outer {
		if !rec.charged() {
			continue
		}
		if err := rec.reservation.SettleFor(rec.detached(), l, cost); !errors.Is(err, core.ErrInvalidAsk) {
			return err
		}
	}
	return ErrNotAdmitted
}

// Refund refunds the cost of a request: [Settle] with a total of 0. A handler calls it if the request
// did not count, such as a login that has succeeded. Unlike [RefundIf], it does not depend on the status
// of the response, which may be the same after a success and after a failure.
//
// Refund frees the cost for every limiter of the innermost gate. To also forget earlier failures of the
// user who has logged in, call [Reset]. Use a [core.SlidingLog] or [core.SlidingWindow], because a
// bucket may refill while the handler runs. Call Refund before the response: the next request of the
// client then finds the refunded limit. If Refund returns an error, the request may stay charged; if that
// is [ErrNotAdmitted], nothing was charged. To refund a Check of an adapter behind a gate, call [SettleFor] with
// 0: Refund is about the gate around the handler.
func Refund(ctx context.Context) error { return Settle(ctx, 0) }

// Key returns the key for which the innermost gate, or a later Check of the handler, has charged l, or another
// view of the same limiter. It returns false if no gate has charged l for the request, as for a [core.Unlimited]
// caller, or if that gate has charged it for several keys. ctx is as for [FromContext]; with that of [OnDecision], Key
// returns the key of a denied request, too. A key is personal data: do not log it.
func Key(ctx context.Context, l *core.Limiter) (key string, ok bool) {
	key, n, _ := keyOf(ctx, l)
	return key, n == 1
}

// keyOf returns the key for which the innermost gate or a later check has charged l, the number of such keys, as Key of
// package unexported, and whether the request is admitted. The gate of OnDecision may have denied it.
func keyOf(ctx context.Context, l *core.Limiter) (key string, n int, admitted bool) {
	own := recordFrom(ctx)
	for rec := own.innermost(); rec != nil && l != nil && n == 0; rec = rec.outer {
		if admitted = rec.charged(); admitted || rec == own {
			key, n = inner.Key(&rec.reservation, l)
		}
	}
	return key, n, admitted
}

// Reset forgets all events of the [Key] of l, such as the failures of a user who has now logged in. Use
// it only for the key that the success has proved, which is the user, and never for an address: an
// attacker with an account of his own would reset the count of his guesses. No gate refunds its charge
// of l afterwards, even if Reset returns an error: the charge may then stay. A [Refund] of the other
// limiters can come before or after Reset.
//
// If [Key] returns false or the request is denied, Reset returns [ErrNotAdmitted], or nil if the limit of the caller is
// [core.Unlimited]. Other errors are those of [core.Limiter.Reset]. As with [Settle], ctx only identifies
// the request.
func Reset(ctx context.Context, l *core.Limiter) error {
	key, n, admitted := keyOf(ctx, l)
	switch {
	case n < 0:
		return nil
	case n != 1 || !admitted:
		return ErrNotAdmitted
	}
	rec := recordFrom(ctx).innermost()
	forget := func() {
		for o := rec; o != nil; o = o.outer {
			inner.Forget(&o.reservation, l, key)
		}
	}
	forget()
	_, err := l.Reset(rec.detached(), key)
	forget() // the charge of a concurrent Settle
	return err
}

// RefundIf makes the gate refund the cost of a request if f returns true for the status of the
// response. A status is no proof of success: a login form redirects after a wrong password, too, and a
// refund for status 303 would remove the limit. To count only failures, call [Refund] in the handler,
// which knows the result. Use RefundIf if each status has one meaning, for example to refund requests
// for which the server has failed (500 and above).
//
// The refund includes changes of the cost by [Settle]. f is called concurrently. RefundIf panics if f
// is nil. A place of a [core.InFlight] is not refunded, and is freed after the refund.
//
// While its handler runs, the request is counted, so concurrent requests cannot exceed the limit. The
// header fields of the response count the request, too. The refund takes another call of the Store
// when the handler has returned. A small response that was not flushed is sent only after that
// call. If the Store fails, the error is logged, the request stays charged and the response stays
// the same, without a call of [OnError].
//
// A handler that panics counts as status 500, whatever it wrote. A hijacked connection counts as
// 101. Informational responses (1xx) are ignored. A handler may return without a response that is
// written later: by the error handler of Echo, an error middleware around a gate in Gin, or code around
// a net/http gate. f then gets the status of that response. If no response is written, nothing is
// refunded; only a handler of Gin or Echo that reports no error then counts as 200.
//
// Nothing is refunded if, when the handler returns, the client is known to have hung up or the
// deadline of the request has passed. Otherwise sending a request and hanging up would be cheaper
// than waiting for the response. The package comment says when hanging up goes unnoticed.
//
// Use a [core.SlidingLog] or [core.SlidingWindow]. With a bucket, a client that holds many requests
// open can gain tokens: it gets refunds in addition to the tokens that refill in the meantime (see
// [core.Reservation.Refund]).
//
// No other option makes the gate wrap the ResponseWriter of a handler: see the package comment.
func RefundIf(f func(status int) bool) Option {
	argument.NotNil("gate: RefundIf", "function", f)
	return option(func(o *options) { o.refundIf = f })
}

// refundIf refunds the request if the function of RefundIf returns true for the status of the response. An
// error of the Store is logged and does not change the response.
func refundIf(rec *record, status int) {
	if !rec.gate.refundIf(status) {
		return
	}
	ctx := rec.detached()
	if err := rec.reservation.Settle(ctx, 0); err != nil {
		rec.gate.log.warn(ctx, "weir: the cost of a request could not be refunded", err, status)
	}
}

// Lost returns a channel that is closed when the request has lost a place of a [core.InFlight] rule,
// although its handler still runs: see [core.Reservation.Lost]. The gate does not cancel the request. ctx
// is as for [FromContext]. If gates around each other have such rules, the channel is that of the
// innermost one. It is nil if no gate has taken a place for the request, and blocks then for ever.
func Lost(ctx context.Context) <-chan struct{} {
	for rec := recordFrom(ctx); rec != nil; rec = rec.outer {
		if lost := rec.reservation.Lost(); lost != nil {
			return lost
		}
	}
	return nil
}

// places returns a function that frees the places of in-flight rules that the request has taken, or nil if
// there are none. Until then, they are renewed, even if the client hangs up, because the handler may still
// run. The function does not wait for another process.
func places(rec *record) (end func()) {
	has, local := inner.HasPlaces(&rec.reservation)
	switch {
	case !has:
		return nil
	case local:
		return func() { release(rec, rec.detached()) }
	}
	return func() { go release(rec, rec.detached()) } // the context is read here, because Check sets that of its request
}

// endPlaces frees the places of a request whose handler does not run.
func endPlaces(rec *record) {
	if end := places(rec); end != nil {
		end()
	}
}

// release frees the places of rec. An error is logged; the places then lapse at the end of their hold.
func release(rec *record, ctx context.Context) {
	if err := rec.reservation.Release(ctx); err != nil {
		rec.gate.log.warn(ctx, "weir: the place of a request could not be freed, and lapses", err, sent)
	}
}
