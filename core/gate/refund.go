package gate

import (
	"github.com/weir-go/weir/internal/argument"
)

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
